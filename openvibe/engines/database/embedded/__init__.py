"""Django database backend for the embedded PostgreSQL: the first connection starts or joins the server."""
