"""The recorders for other interfaces than Gym's, where their packages are not installed."""

import sys

import pytest

from gym_recording import (
    MissingPackageError,
    TraceRecordingAECWrapper,
    TraceRecordingDmEnvWrapper,
    TraceRecordingParallelWrapper,
)


@pytest.mark.parametrize(
    ("wrapper", "package", "install"),
    [
        (TraceRecordingDmEnvWrapper, "dm_env", "dm-env"),
        (TraceRecordingParallelWrapper, "pettingzoo", "pettingzoo"),
        (TraceRecordingAECWrapper, "pettingzoo", "pettingzoo"),
    ],
)
def test_the_line_that_installs_an_absent_package_is_said(monkeypatch, tmp_path, wrapper, package, install):
    class Fresh(wrapper):  # no class is made for it yet
        pass

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"needs the package {package}: pip install {install}$"):
        Fresh(object(), tmp_path)
