from openvibe.engines.text.names import MAX_NAMES, find_names


def test_names_stand_within_a_sentence_and_are_not_asked_for() -> None:
    text = "My sister is called Thekla. Yesterday, Odile and Mara came to Ghent with me"
    assert find_names(text, "Where does Mara's sister live?") == ("Thekla", "Odile", "Ghent")
    assert find_names("Моя сестра зовётся Фёкла", "") == ("Фёкла",)


def test_words_in_capitals_and_beginnings_are_none() -> None:
    assert find_names("Hello there. NASA said OK\nYes", "") == ()
    assert find_names("", "") == ()


def test_they_are_not_read_without_end() -> None:
    assert len(find_names(" ".join(f"and Name{chr(97 + number)}" for number in range(26)), "")) == MAX_NAMES
