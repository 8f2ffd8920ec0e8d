"""Where what can be made again is kept."""

import os
from pathlib import Path

from headrace.spark.cache import cache_directory


def test_it_is_in_the_cache_of_the_user(tmp_path: Path) -> None:
    assert cache_directory({"HOME": str(tmp_path)}) == str(tmp_path / ".cache" / "headrace")
    assert cache_directory({"HOME": "/nowhere", "XDG_CACHE_HOME": str(tmp_path)}) == str(tmp_path / "headrace")
    assert (tmp_path / "headrace").is_dir()


def test_where_that_cannot_be_made_it_is_another_that_only_we_can_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = cache_directory({"HOME": str(tmp_path / "file")})
    assert os.stat(made).st_mode & 0o777 == 0o700
    assert os.stat(made).st_uid == os.getuid()
    os.rmdir(made)
