"""One Spark session for all tests of a process."""

import pytest

from eventide.engine.session import local_session


@pytest.fixture(scope="session")
def spark():
    return local_session()
