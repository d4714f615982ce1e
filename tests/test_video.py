"""Videos, by decoding them again. Needs imageio-ffmpeg, but for what is refused before ffmpeg is asked."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from gym_recording import TraceError, TraceRecording, TraceRecordingReader
from gym_recording.cli import main
from gym_recording.video import FPS, recorded_fps, write_video

needs_ffmpeg = pytest.mark.skipif(find_spec("imageio_ffmpeg") is None, reason="imageio-ffmpeg is not installed")
CLOSE = 12  # of 255: what compression may change in a picture of one colour


def plain(n, shape=(48, 64, 3)):
    """A picture of one colour, another one for every n."""
    colour = [40 * n % 256, 255 - 40 * n % 256, 128]
    return np.full(shape, colour if shape[-1:] == (3,) else 40 * n % 256, "uint8")


@pytest.fixture
def record(tmp_path):
    def record(*observations, frames=None, env=None):
        """One episode."""
        directory = tmp_path / "recording"
        with TraceRecording(directory, frames=frames is not None, env=env, durability="none") as recording:
            first, *others = zip(observations, frames or [None] * len(observations))
            recording.add_reset(first[0], frame=first[1])
            for observation, frame in others:
                recording.add_step(0, observation, 0.0, frame=frame)
        return TraceRecordingReader(directory)

    return record


def decoded(path):
    """The pictures of a video, and how many there are a second."""
    from imageio_ffmpeg import get_ffmpeg_exe

    command = [get_ffmpeg_exe(), "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    ran = subprocess.run(command, check=True, capture_output=True)
    about = next(line for line in ran.stderr.decode().splitlines() if " Video: " in line)
    width, height = map(int, re.search(r", (\d+)x(\d+)[ ,]", about).groups())
    pictures = np.frombuffer(ran.stdout, "uint8").reshape(-1, height, width, 3)
    return pictures, float(re.search(r"([\d.]+) fps", about)[1])


def assert_shows(path, expected, fps=FPS):
    """The video has these pictures, as far as compression leaves them; odd sizes have a black edge."""
    found, found_fps = decoded(path)
    assert (len(found), found_fps) == (len(expected), fps)
    for one, picture in zip(found, expected):
        height, width = picture.shape[:2]
        assert one.shape == (height + height % 2, width + width % 2, 3)
        picture = picture.reshape(height, width, -1)[..., :3].astype(int)
        assert np.abs(one[:height, :width].astype(int) - picture).mean() < CLOSE


@needs_ffmpeg
@pytest.mark.parametrize("shape", [(48, 64, 3), (47, 63, 3), (48, 64), (48, 64, 1), (50, 62, 4), (1, 1, 3)])
def test_frames_become_a_video(record, tmp_path, shape):
    frames = [plain(n, shape) for n in range(6)]
    (episode,) = record(*range(6), frames=frames)
    assert write_video(episode, tmp_path / "out.mp4") == (6, 0)
    if shape != (1, 1, 3):
        assert_shows(tmp_path / "out.mp4", frames)
    assert os.listdir(tmp_path) == ["recording", "out.mp4"] or sorted(os.listdir(tmp_path)) == ["out.mp4", "recording"]


@needs_ffmpeg
def test_where_a_frame_is_missing_the_one_before_stays(record, tmp_path):
    frames = [None, plain(1), None, plain(3)]
    (episode,) = record(*range(4), frames=frames)
    assert write_video(episode, tmp_path / "out.mp4") == (4, 2)
    assert_shows(tmp_path / "out.mp4", [np.zeros((48, 64, 3), "uint8"), plain(1), plain(1), plain(3)])


@needs_ffmpeg
def test_frames_of_other_sizes_and_colours_stand_in_the_upper_left_corner(record, tmp_path):
    frames = [plain(1, (16, 64)), plain(2, (48, 32, 3)), plain(3, (48, 64, 4)), plain(4, (16, 16, 1))]
    (episode,) = record(*range(4), frames=frames)
    write_video(episode, tmp_path / "out.mp4")
    expected = []
    for frame in frames:
        height, width = frame.shape[:2]
        expected.append(np.zeros((48, 64, 3), "uint8"))
        expected[-1][:height, :width] = frame.reshape(height, width, -1)[..., :3]
    assert_shows(tmp_path / "out.mp4", expected)


OBSERVATIONS = {
    "colour": lambda n: plain(n),
    "grey": lambda n: plain(n, (48, 64)),
    "one channel": lambda n: plain(n, (48, 64, 1)),
    "sizes that change": lambda n: plain(n, (48 - 8 * (n == 2), 64, 3)),
}
KEYS = {
    "alone": (lambda picture: picture, None),
    "in a dict": (lambda picture: {"image": picture, "at": 3}, None),
    "in a tuple in a dict": (lambda picture: {"both": (picture, picture)}, "observations.both[1]"),
    "one of several": (lambda picture: {"image": picture, "other": picture[:8]}, "observations.image"),
}


@needs_ffmpeg
@pytest.mark.parametrize("where", KEYS)
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_that_are_pictures_become_a_video(record, tmp_path, kind, where):
    pictures = [OBSERVATIONS[kind](n) for n in range(4)]
    put, key = KEYS[where]
    (episode,) = record(*map(put, pictures))
    write_video(episode, tmp_path / "out.mp4", fps=12.5, key=key)
    full = [np.zeros((48, *picture.shape[1:]), "uint8") for picture in pictures]
    for one, picture in zip(full, pictures):
        one[: len(picture)] = picture
    assert_shows(tmp_path / "out.mp4", full, 12.5)


@needs_ffmpeg
@pytest.mark.parametrize("channels", [1, 3])
def test_channels_may_come_first(record, tmp_path, channels):
    pictures = [plain(n)[..., :channels] for n in range(3)]
    (episode,) = record(*[picture.transpose(2, 0, 1) for picture in pictures])
    write_video(episode, tmp_path / "out.mp4")
    assert_shows(tmp_path / "out.mp4", pictures)


@needs_ffmpeg
def test_frames_come_before_observations(record, tmp_path):
    (episode,) = record(*[plain(0)] * 3, frames=[plain(n) for n in (1, 2, 3)])
    write_video(episode, tmp_path / "out.mp4")
    assert_shows(tmp_path / "out.mp4", [plain(n) for n in (1, 2, 3)])
    write_video(episode, tmp_path / "out.mp4", key="observations")
    assert_shows(tmp_path / "out.mp4", [plain(0)] * 3)


NO_PICTURES = {
    "a number": 3,
    "a vector": np.zeros(3, "uint8"),
    "floats": np.zeros((8, 8, 3)),
    "a stack of grey ones": np.zeros((4, 8, 8), "uint8"),
    "text": "go",
    "a dict of numbers": {"a": 1},
}


@needs_ffmpeg
@pytest.mark.parametrize("name", NO_PICTURES)
def test_without_pictures_there_is_an_error_that_says_how_to_get_some(record, tmp_path, name):
    (episode,) = record(*[NO_PICTURES[name]] * 2)
    with pytest.raises(TraceError, match=r"key: no pictures .*frames=True"):
        write_video(episode, tmp_path / "out.mp4")


@needs_ffmpeg
def test_several_pictures_and_wrong_keys_are_errors_that_name_the_choices(record, tmp_path):
    (episode,) = record({"left": plain(0), "right": (plain(1), "text")})
    choices = r"\(expected observations.left, observations.right\[0\]"
    with pytest.raises(TraceError, match="several kinds of pictures " + choices):
        write_video(episode, tmp_path / "out.mp4")
    for key in ("left", "observations.right[1]", "frames", ""):
        with pytest.raises(TraceError, match="no such pictures " + choices):
            write_video(episode, tmp_path / "out.mp4", key=key)


@needs_ffmpeg
@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("out.nothing", "ffmpeg cannot make this video .*(standard extension|suitable output format)"),
        ("out", "ffmpeg cannot make this video"),
        ("out.mp4/out.mp4", "Not a directory"),
        ("missing/out.mp4", "No such file or directory"),
        ("recording", "ffmpeg cannot make this video"),
        ("folder.mp4", "Is a directory"),
    ],
)
def test_what_fails_leaves_no_file_and_the_old_one(record, tmp_path, output, message):
    (episode,) = record(plain(0))
    (tmp_path / "out.mp4").write_bytes(b"old")
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises((TraceError, OSError), match=message) as caught:
        write_video(episode, tmp_path / output)
    assert os.fspath(tmp_path / output) in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["folder.mp4", "out.mp4", "recording"]
    assert (tmp_path / "out.mp4").read_bytes() == b"old"


@needs_ffmpeg
def test_an_interrupt_leaves_no_file(record, tmp_path):
    """Ctrl-C comes while the pictures go to ffmpeg, which has begun a file."""
    record(0, 0, frames=[plain(0), plain(1)])
    program = f"""if 1:
        import os, signal, sys, threading, time
        import numpy as np
        from gym_recording.episode import Episode
        from gym_recording.video import write_video

        def interrupt():
            while not any(name.startswith(".out.mp4.") for name in os.listdir({str(tmp_path)!r})):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        frames = np.broadcast_to(np.zeros((1, 64, 64, 3), "uint8"), (10**7, 64, 64, 3))
        episode = Episode(np.zeros(10**7), np.zeros(10**7 - 1), np.zeros(10**7 - 1), frames=frames)
        threading.Thread(target=interrupt).start()
        try:
            write_video(episode, {str(tmp_path / "out.mp4")!r})
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=60, text=True)
    assert done.stdout == "interrupted\n"
    assert os.listdir(tmp_path) == ["recording"]


@needs_ffmpeg
def test_a_video_takes_one_picture_at_a_time(tmp_path):
    """Two hundred pictures of 3 MB each."""
    code = """if 1:
        import resource, sys
        import numpy as np
        from gym_recording.episode import Episode
        from gym_recording.video import write_video

        picture = np.zeros((1, 1000, 1000, 3), "uint8")
        frames = np.broadcast_to(picture, (200, 1000, 1000, 3))
        episode = Episode(np.zeros(200), np.zeros(199), np.zeros(199), frames=frames)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write_video(episode, sys.argv[1])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / "out.mp4"], check=True, stdout=subprocess.PIPE)
    assert int(ran.stdout) < 100_000  # KB; all are 600 MB


# ---- the command


@pytest.mark.parametrize(
    ("env", "fps"),
    [({"render_fps": 50}, 50), ({"render_fps": 12.5}, 12.5), ({"id": "Mine-v0"}, FPS), (None, FPS)]
    + [({"render_fps": bad}, FPS) for bad in (0, -1, "50", True, None, [5], 1e9)],
)
def test_the_speed_is_what_the_environment_says(record, env, fps):
    reader = record(plain(0), env=env)
    assert recorded_fps(reader.traces, 0) == fps


@needs_ffmpeg
def test_the_command_writes_the_episode_that_it_is_told(tmp_path, capsys):
    for number in range(2):
        with TraceRecording(tmp_path / "in", frames=True, env={"render_fps": 10 + number}) as recording:
            for n in range(2):
                recording.add_reset(0, frame=plain(2 * number + n))
                recording.add_step(0, 0, 0.0, frame=None)
    out = tmp_path / "out.mp4"
    for arguments, n, fps in (([], 0, 10), (["--episode", "1"], 1, 10), (["--episode=-1"], 3, 11)):
        assert main(["video", str(tmp_path / "in"), str(out), *arguments]) == 0
        assert_shows(out, [plain(n)] * 2, fps)
        assert capsys.readouterr().out == f"wrote 2 pictures, 1 frame missing, {fps} a second, to {out}\n"
    assert main(["video", str(tmp_path / "in"), str(out), "--fps", "5", "--key", "frames"]) == 0
    assert_shows(out, [plain(0)] * 2, 5)
    for wrong, message in (
        (["--episode", "4"], "--episode: no such episode (expected less than 4, found 4)"),
        (["--episode=-5"], "--episode: no such episode (expected less than 4, found -5)"),
        (["--key", "observations"], "key: no such pictures (expected frames, found observations)"),
        (["--fps", "0"], "ffmpeg cannot make this video"),
    ):
        assert main(["video", str(tmp_path / "in"), str(out), *wrong]) == 1
        assert message in capsys.readouterr().err
    assert main(["video", str(tmp_path / "none"), str(out)]) == 1


def test_without_the_package_there_is_an_error_that_gives_the_install_line(record, tmp_path):
    record(plain(0))
    (tmp_path / "imageio_ffmpeg.py").write_text("raise ImportError")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "gym_recording", "video", tmp_path / "recording", tmp_path / "out.mp4"]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, encoding="utf-8")
    install = "pip install 'gym_recording[video]'"
    assert (ran.returncode, ran.stderr) == (
        1,
        f"gym-recording: writing videos needs the package imageio-ffmpeg: {install}\n",
    )


def test_pictures_that_fit_in_no_memory_together_are_refused(tmp_path, capsys):
    """Two of 4 MB in a frame of 48 TB."""
    with TraceRecording(tmp_path, frames=True, durability="none") as recording:
        recording.add_reset(0, frame=np.zeros((1, 1 << 22, 3), "uint8"))
        recording.add_step(0, 0, 0.0, frame=np.zeros((1 << 22, 1, 3), "uint8"))
    pytest.importorskip("imageio_ffmpeg")
    assert main(["video", str(tmp_path), str(tmp_path / "out.mp4")]) == 1
    expected = (
        "gym-recording: frames: the pictures differ too much (expected 67108864 bytes, found 4194304 x 4194304)\n"
    )
    assert capsys.readouterr().err == expected
    assert not (tmp_path / "out.mp4").exists()
