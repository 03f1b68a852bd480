"""Documents (PDF, Word, slides, sheets, e-books, web pages) as text, read in a process of its own."""
