"""docs/reference says what the code says."""

import pytest
from tools import generate_reference


@pytest.mark.parametrize("page", sorted(generate_reference.pages()))
def test_the_page_on_disk_is_the_one_the_code_makes(page: str) -> None:
    on_disk = (generate_reference.TARGET / page).read_text()
    assert on_disk == generate_reference.pages()[page], "run `make reference`"
