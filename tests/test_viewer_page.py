"""The page of `gym-recording view`, used in a browser. Needs the Python package playwright, and Chromium as `chromium`
or `google-chrome` in the path. The server: test_viewer.py."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA

import gym_recording
from gym_recording import TraceRecording, TraceRecordingReader, TraceRecordingWrapper
from gym_recording.viewer import RecordingServer, whole_page

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
expect = sync_api.expect
expect.set_options(timeout=20_000)  # ms; what is right comes at once, but on a machine that has much to do

PACKAGE = Path(gym_recording.__file__).parent
MANY = 100_000


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page of its own, which must not have complained in the end."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme="light", timezone_id="UTC")
    context.set_default_timeout(20_000)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    yield page
    context.close()
    # Of what is not there, the browser itself says so.
    assert [text for text in complaints if not text.startswith("Failed to load resource")] == []


@pytest.fixture(scope="module")
def serve():
    """A function that serves a recording, and gives the URL of its page."""
    with contextlib.ExitStack() as stack:

        def serve(directory):
            server = stack.enter_context(RecordingServer(directory))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server.url

        yield serve


# ---- recordings


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    gymnasium = pytest.importorskip("gymnasium")
    directory = tmp_path_factory.mktemp("cartpole")
    env = TraceRecordingWrapper(gymnasium.make("CartPole-v1"), directory, timestamps=True)
    env.action_space.seed(0)
    for number in range(30):
        env.reset(seed=number)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    env.reset(seed=99)
    env.step(0)
    env.close()
    return directory


COLOURS = [(250, 10, 20), (20, 240, 30), (40, 50, 230)]


def picture(step):
    """A white square that moves over a ground of one colour: at step t its corner is (t, 2)."""
    image = np.empty((16, 24, 3), "uint8")
    image[:] = COLOURS[step % 3]
    image[2:6, step : step + 4] = 255
    return image


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A Dict environment with images in every order of axes, text, a Tuple, a long vector, and infos."""
    gymnasium = pytest.importorskip("gymnasium")
    spaces = gymnasium.spaces

    class Mixed(gymnasium.Env):
        observation_space = spaces.Dict(
            {
                "camera": spaces.Box(0, 255, (16, 24, 3), np.uint8),
                "planes": spaces.Box(0, 255, (3, 16, 24), np.uint8),
                "stack": spaces.Box(0, 255, (16, 24, 4), np.uint8),
                "position": spaces.Box(-1, 1, (2,), np.float32),
                "task": spaces.Text(40),
                "inner": spaces.Tuple((spaces.Discrete(5), spaces.Box(-1, 1, (20,)))),
            }
        )
        action_space = spaces.Discrete(3)

        def observation(self):
            image, t = picture(self.t), self.t
            grey = np.stack([picture(max(0, t - 3 + k))[..., 0] for k in range(4)], axis=-1)
            return {
                "camera": image,
                "planes": image.transpose(2, 0, 1),
                "stack": grey,
                "position": np.array([0.1 * t, -0.1], "float32"),
                "task": f"<b>step</b> {t}",
                "inner": (t % 5, np.full(20, t / 20, "float32")),
            }

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return self.observation(), {"note": "begin"}

        def step(self, action):
            self.t += 1
            infos = {"speed": self.t / 2, **({"event": {"kind": "bounce"}} if self.t == 3 else {})}
            return self.observation(), 0.1, False, self.t == 6, infos

    directory = tmp_path_factory.mktemp("mixed")
    env = TraceRecordingWrapper(Mixed(), directory, infos=True, metadata={"policy": "<i>mine</i>"})
    for number in range(3):
        env.reset(seed=number, options={"level": number})
        for action in [0, 1, 2, 1, 0, 1]:
            env.step(action)
    env.close()
    return directory


# ---- what people do


def rows(page):
    return page.locator(".list-row")


def cell(page, number, name):
    """The text of a cell of an episode that is in sight."""
    row = rows(page).filter(has=page.locator(".cell.episode", has_text=re.compile(f"^{number}$")))
    return row.locator(f".cell.{name}")


def pixel(page, x, y):
    script = "(canvas, [x, y]) => Array.from(canvas.getContext('2d').getImageData(x, y, 1, 1).data)"
    return page.locator(".video canvas").evaluate(script, [x, y])


def value(page, name):
    """The value of a leaf of the panel."""
    leaf = page.locator(".leaf").filter(has=page.locator(".leaf-name", has_text=re.compile(f"^{re.escape(name)}$")))
    return leaf.locator(".leaf-value")


def opened(page, number):
    """Waits until an episode is there."""
    expect(page.locator(".episode-view h2")).to_have_text(f"Episode {number}")
    expect(page.locator(".episode-view")).to_have_attribute("aria-busy", "false")


def step_is(page, step):
    expect(page.locator(".player-where")).to_have_text(re.compile(rf"^{step} / "))


def test_the_list_shows_every_episode_as_the_reader_in_python_reads_it(page, serve, cartpole):
    page.goto(serve(cartpole))
    expect(page.locator(".status")).to_contain_text("31 episodes")
    page.locator(".list").focus()
    for number, episode in enumerate(TraceRecordingReader(cartpole)):
        expect(page.locator(".list-row.active .cell.episode")).to_have_text(str(number))
        row = page.locator(".list-row.active")
        expect(row.locator(".cell.length")).to_have_text(str(len(episode)))
        expect(row.locator(".cell.return")).to_have_text(f"{episode.total_reward:g}")
        expect(row.locator(".cell.ended")).to_have_text(episode.ended_by)
        expect(row.locator(".cell.seed")).to_have_text(str(episode.seed))
        expect(row.locator(".cell.started")).to_have_text(episode.started[:19].replace("T", " "))
        page.keyboard.press("ArrowDown")


def test_the_list_is_sorted_and_filtered(page, serve, cartpole):
    page.goto(serve(cartpole))
    lengths = [len(episode) for episode in TraceRecordingReader(cartpole)]
    expect(page.locator(".status")).to_contain_text("31 episodes")
    page.get_by_role("button", name="Length", exact=True).click()
    expect(rows(page).first.locator(".cell.length")).to_have_text(str(min(lengths)))
    page.get_by_role("button", name="Length", exact=True).click()
    expect(rows(page).first.locator(".cell.length")).to_have_text(str(max(lengths)))
    expect(page.locator("[aria-sort=descending]")).to_have_text("Length")
    page.keyboard.press("/")
    page.keyboard.type("ended_by:close")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator(".cell.episode")).to_have_text("30")
    page.get_by_label("filter").fill("length>5 seed<10")
    expect(page.locator(".filter-note")).to_have_text("10 of 31 episodes")
    page.get_by_label("filter").fill("size>5")
    expect(page.locator(".filter-note")).to_have_text("there is no column size")


def test_a_slow_click_opens_an_episode_too(page, serve, cartpole):
    """The rows are drawn anew when the list gets the focus, which is between press and release."""
    page.goto(serve(cartpole))
    expect(page.locator(".status")).to_contain_text("31 episodes")
    expect(cell(page, 4, "length")).to_be_visible()
    box = page.locator("#row-4").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.wait_for_timeout(100)
    page.mouse.up()
    opened(page, 4)


def test_an_episode_shows_its_numbers_at_each_step(page, serve, cartpole):
    episode = TraceRecordingReader(cartpole)[3]
    page.goto(serve(cartpole))
    cell(page, 3, "length").click()
    opened(page, 3)
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    step_is(page, 2)
    shown = page.locator(".panel .leaf-value")
    expect(shown.nth(0)).to_have_text(f"[{', '.join(map(str, episode.observations[2]))}]")
    expect(shown.nth(1)).to_have_text(str(episode.actions[2]))
    legend = page.locator(".chart", has_text="observation[3]").locator("li").nth(3)
    expect(legend).to_have_text(f"observation[3]{episode.observations[2, 3]!s}")
    expect(page.locator(".chart", has_text="sum of reward").locator("li")).to_have_text(re.compile(r"3$"))
    page.keyboard.press("End")
    step_is(page, len(episode))
    expect(page.locator(".panel-note", has_text="the episode ends here")).to_be_visible()
    expect(shown.nth(1)).to_have_text("none")


def test_the_address_keeps_the_place(page, serve, cartpole):
    url = serve(cartpole)
    page.goto(f"{url}#episode=7&step=4")
    opened(page, 7)
    step_is(page, 4)
    page.keyboard.press("n")
    opened(page, 8)
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/#episode=8&step=1")
    page.keyboard.press("p")
    opened(page, 7)
    page.keyboard.press("Escape")
    expect(page.locator(".episode-view")).to_be_hidden()
    page.go_back()
    opened(page, 7)
    page.reload()
    opened(page, 7)


def test_a_click_on_the_chart_of_returns_opens_the_episode(page, serve, cartpole):
    page.goto(serve(cartpole))
    expect(page.locator(".status")).to_contain_text("31 episodes")
    over = page.locator(".overview .u-over").first
    width = over.bounding_box()["width"]
    over.hover(position={"x": width * 10 / 30, "y": 20})
    expect(page.locator(".overview .chart-where").first).to_have_text("episode 10")
    over.click(position={"x": width * 20 / 30, "y": 20})
    opened(page, 20)


def test_images_are_shown_in_step_with_charts_and_values(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=1&step=2")
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    assert page.locator(".video canvas").evaluate("c => [c.width, c.height]") == [24, 16]
    assert pixel(page, 0, 0) == [*COLOURS[2], 255]
    assert pixel(page, 2, 2) == pixel(page, 5, 5) == [255] * 4
    assert pixel(page, 6, 2) == pixel(page, 1, 2) == [*COLOURS[2], 255]
    expect(value(page, "task")).to_have_text("<b>step</b> 2")
    expect(value(page, "position")).to_have_text("[0.2, -0.1]")
    expect(page.locator(".chart", has_text="position[0]").locator("li").first).to_have_text("position[0]0.2")
    over = page.locator(".chart", has_text="position[0]").locator(".u-over")
    over.hover(position={"x": over.bounding_box()["width"] * 4 / 6, "y": 20})
    step_is(page, 4)
    expect(value(page, "task")).to_have_text("<b>step</b> 4")
    expect(page.locator(".video canvas")).to_have_attribute("data-step", "4")
    assert pixel(page, 0, 0) == [*COLOURS[1], 255]


def test_images_of_every_order_of_axes_are_the_same(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=0&step=1")
    choice = page.locator(".video select")
    expect(choice.locator("option")).to_have_text(["camera", "planes", "stack"])
    for name in ("camera", "planes"):
        choice.select_option(name)
        expect(page.locator(".video-about")).to_have_text("24 × 16")
        assert pixel(page, 0, 0) == [*COLOURS[1], 255]
        assert pixel(page, 1, 2) == [255] * 4
    choice.select_option("stack")  # four grey images, the last on the right: alpha would be 255
    expect(page.locator(".video-about")).to_have_text("4 × 24 × 16")
    assert pixel(page, 0, 0) == [COLOURS[0][0]] * 3 + [255]
    assert pixel(page, 3 * 24, 0) == [COLOURS[1][0]] * 3 + [255]


def test_a_video_plays_to_its_end(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=0")
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    page.get_by_label("speed").select_option("60")
    page.get_by_role("button", name="play", exact=True).click()
    step_is(page, 6)
    expect(page.get_by_role("button", name="play", exact=True)).to_be_visible()
    assert pixel(page, 6, 2) == [255] * 4
    page.get_by_label("speed").select_option("1")
    page.keyboard.press("Home")
    page.locator("h1").click()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="pause", exact=True)).to_be_visible()
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="play", exact=True)).to_be_visible()
    page.get_by_label("step", exact=True).fill("3")
    step_is(page, 3)


def test_who_plays_and_pauses_fast_plays_once(page, serve, cartpole):
    longest = max(TraceRecordingReader(cartpole), key=len)
    page.goto(f"{serve(cartpole)}#episode={longest.seed}")
    opened(page, longest.seed)
    page.get_by_label("speed").select_option("2")
    button = page.get_by_role("button", name="play", exact=True)
    button.evaluate("button => { for (let i = 0; i < 31; i++) button.click(); }")  # all before the next frame
    before = page.evaluate("performance.now()")
    page.wait_for_timeout(1000)
    step = int(page.locator(".player-where").inner_text().partition(" ")[0])
    passed = page.evaluate("performance.now()") - before
    assert 0 < step <= 2 * passed / 1000 + 2


def test_dicts_and_infos_are_trees(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=2&step=3")
    expect(value(page, "speed")).to_have_text("1.5")
    expect(value(page, "kind")).to_have_text("bounce")
    expect(value(page, "note")).to_have_text("none")
    inner = page.locator(".panel details", has_text="inner")
    expect(inner.locator(".leaf-value").first).to_have_text("3")
    page.keyboard.press("Home")
    expect(value(page, "note")).to_have_text("begin")
    expect(value(page, "speed")).to_have_text("none")
    page.locator(".about summary").click()
    about = page.locator(".about dl")
    expect(about).to_contain_text('{"level": 2}')
    expect(about).to_contain_text('{"policy": "<i>mine</i>"}')
    expect(about).to_contain_text('"type": "Dict"')


def test_of_a_long_vector_the_wanted_numbers_are_drawn(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=0&step=5")
    page.get_by_label("numbers of inner[1]").scroll_into_view_if_needed()
    chart = page.locator(".slot", has_text="inner[1][0]")
    expect(chart.locator("li")).to_have_count(8)
    page.get_by_label("numbers of inner[1]").fill("0, 17-19")
    page.keyboard.press("Enter")
    chart = page.locator(".slot", has_text="inner[1][19]")
    expect(chart.locator("li")).to_have_text([f"inner[1][{k}]0.25" for k in (0, 17, 18, 19)])


def test_nothing_from_a_file_becomes_an_element(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=0")
    expect(value(page, "task")).to_have_text("<b>step</b> 0")
    assert page.locator("b, i").count() == 0


def test_a_recording_grows_on_the_page(page, serve, tmp_path):
    page.goto(serve(tmp_path))
    expect(page.locator(".welcome")).to_contain_text("Nothing is recorded here yet")
    recording = TraceRecording(tmp_path, durability="none", flush_interval=0)
    recording.add_reset(np.zeros(2, "float32"))
    recording.add_step(0, np.full(2, 1, "float32"), 1.0)
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator(".cell.ended")).to_have_text("running")
    expect(page.locator(".status")).to_have_class("status live")
    rows(page).click()
    opened(page, 0)
    page.keyboard.press("End")
    step_is(page, 1)
    for t in range(2, 5):
        recording.add_step(0, np.full(2, t, "float32"), 1.0)
    expect(page.locator(".player-where")).to_have_text("4 / 4")  # who is at the end stays there
    expect(page.locator(".panel .leaf-value").first).to_have_text("[4, 4]")
    expect(page.locator(".facts")).to_contain_text("length4")
    expect(page.locator(".panel-note", has_text="none yet")).to_be_visible()
    expect(page.locator(".chart", has_text="observation[1]").locator("li").last).to_have_text("observation[1]4")
    recording.end_episode()
    for _ in range(3):
        recording.add_reset(np.zeros(2, "float32"))
        recording.add_step(0, np.full(2, 1, "float32"), 1.0, terminated=True)
    recording.close()
    expect(page.locator(".status")).to_have_text("4 episodes · 7 steps · 1 trace")
    expect(page.locator(".status")).to_have_class("status")
    expect(page.locator(".facts .tag")).to_have_text("reset")
    expect(rows(page)).to_have_count(4)


def test_a_damaged_recording_says_what_is_wrong_and_shows_the_rest(page, serve, tmp_path):
    with TraceRecording(tmp_path, durability="none", buffer_batch_size=1) as recording:
        for number in range(5):
            recording.add_reset(np.zeros(3))
            recording.add_step(0, np.ones(3), float(number))
    headers = sorted(path for path in tmp_path.iterdir() if re.search(r"ep[0-9]+\.json$", path.name))
    os.truncate(headers[1].with_suffix(".bin"), 100)
    headers[2].with_suffix(".bin").unlink()
    headers[3].write_bytes(headers[3].read_bytes().replace(b"float64", b"float32", 1))
    page.goto(serve(tmp_path))
    expect(page.locator(".problems summary")).to_contain_text("3 problems")
    page.locator(".problems summary").click()
    texts = page.locator(".problem").all_inner_texts()
    assert [name in text for name, text in zip((path.stem for path in headers[1:4]), texts)] == [True] * 3
    assert "the array is not wholly there" in texts[0] and "expected" in texts[0] and "at most" in texts[0]
    assert "the blob is missing" in texts[1]
    assert "damaged" in texts[2] and "crc32" in texts[2]
    assert [cell(page, number, "return").inner_text() for number in range(5)] == ["0", "–", "–", "–", "4"]
    cell(page, 1, "length").click()
    expect(page.locator(".episode-right .problem")).to_contain_text("the array is not wholly there")
    page.keyboard.press("p")
    expect(page.locator(".panel .leaf-value").first).to_have_text("[0, 0, 0]")


def test_an_episode_is_shown_when_its_blob_comes_after_its_header(page, serve, tmp_path):
    """As where a recording is copied while it is looked at."""
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset(0.0)
        recording.add_step(0, 1.0, 2.0)
    (blob,) = tmp_path.glob("*.bin")
    blob.rename(tmp_path / "later")
    page.goto(f"{serve(tmp_path)}#episode=0")
    expect(page.locator(".episode-right .problem")).to_contain_text("the blob is missing")
    (tmp_path / "later").rename(blob)
    expect(page.locator(".facts")).to_contain_text("return2")
    expect(page.locator(".problem")).to_have_count(0)


@pytest.mark.parametrize("width", [320, 700, 1000])
def test_everything_is_within_reach_on_a_small_screen(page, serve, framed, width):
    page.set_viewport_size({"width": width, "height": 640})
    page.goto(f"{serve(framed)}#episode=0")
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for control in page.locator("button:visible, select:visible, input:visible").all():
        control.scroll_into_view_if_needed()
        box = control.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, control.inner_html()


def test_a_document_that_is_too_large_is_not_fetched(page, serve, tmp_path):
    with TraceRecording(tmp_path, durability="none", buffer_batch_size=1) as recording:
        for _ in range(3):
            recording.add_reset(0)
            recording.add_step(0, 0, 1.0)
    large = sorted(tmp_path.glob("*.ep*.json"))[1]
    os.truncate(large, 2**30 + 1)
    fetched = []
    page.on("request", lambda request: fetched.append(request.url))
    page.goto(serve(tmp_path))
    page.locator(".problems summary").click()
    expect(page.locator(".problem")).to_contain_text(f"too largefile{large.name}")
    assert [cell(page, number, "return").inner_text() for number in range(3)] == ["1", "–", "1"]
    assert not [url for url in fetched if large.name in url]


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "golden").iterdir() if path.is_dir()))
def test_recordings_of_every_version_are_shown(page, serve, name):
    page.goto(serve(DATA / "golden" / name))
    episodes = list(TraceRecordingReader(DATA / "golden" / name))
    expect(page.locator(".status")).to_contain_text(f"{len(episodes)} episode")
    page.goto(f"{page.url.partition('#')[0]}#episode=0")
    expect(page.locator(".facts")).to_contain_text(f"length{len(episodes[0])}")
    if name == "images_unstacked":
        expect(page.locator(".video canvas")).to_be_visible()
    expect(page.locator(".problem")).to_have_count(0)
    expect(page.locator(".status")).to_have_class("status")  # it is not one that grows


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A hundred thousand episodes: number n has n % 7 steps, each with reward n."""
    directory = tmp_path_factory.mktemp("many")
    with TraceRecording(directory, durability="none", env={"id": "Many-v0"}) as recording:
        for number in range(MANY):
            recording.add_reset(0.5, seed=number)
            for _ in range(number % 7):
                recording.add_step(0, 0.5, float(number))
    return directory


def test_a_hundred_thousand_episodes_are_listed_and_found(page, serve, many):
    page.goto(serve(many))
    expect(page.locator(".status")).to_have_text(re.compile(r"^100,000 episodes · 299,99[0-9] steps"), timeout=60_000)
    assert rows(page).count() < 60  # only those in sight are elements
    page.locator(".list").focus()
    page.keyboard.press("End")
    expect(cell(page, MANY - 1, "return")).to_have_text(str((MANY - 1) * ((MANY - 1) % 7)))
    page.locator(".list-body").evaluate("body => body.scrollTop = 30 * 50_000")
    expect(cell(page, 50_000, "length")).to_have_text(str(50_000 % 7))
    page.get_by_role("button", name="Return", exact=True).click(click_count=2, delay=50)
    best = max(range(MANY), key=lambda number: number * (number % 7))
    page.locator(".list-body").evaluate("body => body.scrollTop = 0")
    expect(rows(page).first.locator(".cell.episode")).to_have_text(str(best))
    page.get_by_label("filter").fill("seed=77777")
    expect(rows(page)).to_have_count(1)
    rows(page).click()
    expect(page.locator(".facts")).to_contain_text(f"length{77777 % 7}")
    longest = page.evaluate(_LONGEST_FRAME)
    assert longest["height"] == 30 * MANY


# Scrolls through the whole list, a jump a frame, with no row left blank.
_LONGEST_FRAME = """async () => {
  const input = document.querySelector(".filter input");
  input.value = "";
  input.dispatchEvent(new Event("input"));
  const frame = () => new Promise(requestAnimationFrame);
  const body = document.querySelector(".list-body");
  await frame();
  await frame();
  const height = document.querySelector(".list-space").offsetHeight;
  for (let i = 0; i < 30; i++) {
    body.scrollTop = (height * i) / 30;
    await frame();
    await frame();
    const area = body.getBoundingClientRect();
    const tops = [...document.querySelectorAll(".list-row")].map((row) => row.getBoundingClientRect());
    if (!tops.some(({ top }) => top <= area.top + 1) || !tops.some(({ bottom }) => bottom >= area.bottom - 1))
      throw new Error(`blank rows at ${body.scrollTop}`);
  }
  return { height };
}"""


def test_a_list_longer_than_an_element_can_be_reaches_its_last_row(page, serve, cartpole):
    url = serve(cartpole)
    page.goto(url)
    numbers = page.evaluate(
        """async (url) => {
          const { List } = await import(url + "list.js");
          const list = new List(() => {});
          list.element.style.height = "400px";
          document.body.replaceChildren(list.element);
          const row = { key: "", version: "", name: "", length: 1, return: 1, ended: "", seed: null, lane: null,
            started: "", error: null, count: 1 };
          list.show(Array.from({ length: 1e6 }, (_, number) => ({ ...row, number, key: String(number) })));
          const frame = () => new Promise(requestAnimationFrame);
          const shown = [];
          for (const part of [0, 0.5, 1]) {
            await frame();
            list.body.scrollTop = part * list.body.scrollHeight;
            await frame();
            await frame();
            const area = list.body.getBoundingClientRect();
            const inside = [...list.body.querySelectorAll(".list-row")].filter((element) => {
              const { top, bottom } = element.getBoundingClientRect();
              return top >= area.top - 1 && bottom <= area.bottom + 1;
            });
            const numbers = inside.map((element) => Number(element.querySelector(".cell.episode").textContent));
            shown.push([numbers[0], numbers[numbers.length - 1]]);
          }
          return shown;
        }""",
        url,
    )
    assert numbers[0][0] == 0
    assert 499_000 < numbers[1][0] < 501_000
    assert numbers[2][1] == 999_999


def test_one_file_opens_a_chosen_folder_without_a_server(page, tmp_path, mixed):
    file = tmp_path / "viewer.html"
    file.write_text(whole_page(), encoding="utf-8")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    expect(page.locator(".welcome h2")).to_have_text("Open a recording")
    page.locator("input[type=file]").set_input_files(mixed)
    expect(page.locator(".status")).to_have_text("3 episodes · 18 steps · 1 trace")
    expect(page.locator(".name")).to_have_text(mixed.name)
    rows(page).nth(1).click()
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    assert pixel(page, 0, 0) == [*COLOURS[0], 255]
    page.keyboard.press("ArrowRight")
    expect(value(page, "task")).to_have_text("<b>step</b> 1")
    assert {url.partition(":")[0] for url in requests} <= {"file", "data", "blob"}
    assert [url for url in requests if url.startswith("file:")] == [file.as_uri()]


def test_a_chosen_file_that_has_changed_or_is_gone_is_told(page, tmp_path):
    directory = tmp_path / "recording"
    with TraceRecording(directory, durability="none", buffer_batch_size=1) as recording:
        for _ in range(2):
            recording.add_reset(0.0)
            recording.add_step(0, 1.0, 2.0)
    file = tmp_path / "viewer.html"
    file.write_text(whole_page(), encoding="utf-8")
    page.goto(file.as_uri())
    page.locator("input[type=file]").set_input_files(directory)
    expect(rows(page)).to_have_count(2)
    first, second = sorted(directory.glob("*.bin"))
    with open(first, "ab") as blob:
        blob.write(b"more")
    second.unlink()
    rows(page).first.click()
    expect(page.locator(".episode-view .problem")).to_contain_text(f"has changed since it was openedfile{first.name}")
    page.keyboard.press("n")
    expect(page.locator(".episode-view .problem")).to_contain_text(
        f"the blob is missing, and its episodes with itfile{second.name}"
    )


def test_a_folder_without_a_recording_says_so(page, tmp_path):
    file = tmp_path / "viewer.html"
    file.write_text(whole_page(), encoding="utf-8")
    page.goto(file.as_uri())
    page.locator("input[type=file]").set_input_files(tmp_path)
    expect(page.locator(".welcome h2")).to_have_text("There is no recording in this folder")


def test_dropped_files_are_opened(page, serve, tmp_path, cartpole):
    page.goto(serve(tmp_path))
    files = [[path.name, list(path.read_bytes())] for path in cartpole.iterdir()]
    page.evaluate(
        """(files) => {
          const dataTransfer = new DataTransfer();
          for (const [name, bytes] of files) dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
          dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        files,
    )
    expect(page.locator(".status")).to_contain_text("31 episodes")


def test_a_folder_that_was_dropped_is_followed(page, serve, tmp_path, cartpole, mixed):
    """By its handle, of which browsers make one without a user only in their own file system."""
    url = serve(tmp_path)
    page.goto(url)
    parts = [
        [[path.name, list(path.read_bytes())] for path in sorted(directory.iterdir())]
        for directory in (cartpole, mixed)
    ]
    lengths = page.evaluate(
        """async ([url, ...parts]) => {
          const { followed } = await import(url + "place.js");
          const { Catalogue } = await import(url + "catalogue.js");
          const root = await navigator.storage.getDirectory();
          const folder = await root.getDirectoryHandle("recording", { create: true });
          const catalogue = new Catalogue(followed(folder));
          const lengths = [];
          for (const files of [[], ...parts, []]) {
            for (const [name, bytes] of files) {
              const file = await (await folder.getFileHandle(name, { create: true })).createWritable();
              await file.write(new Uint8Array(bytes));
              await file.close();
            }
            const isNew = await catalogue.look(() => {});
            lengths.push([isNew, catalogue.rows.length, catalogue.problems.length]);
          }
          return lengths;
        }""",
        [url, *parts],
    )
    assert lengths == [[True, 0, 0], [True, 31, 0], [True, 34, 0], [False, 34, 0]]


def test_the_page_works_where_the_package_is_hosted_as_plain_files(page, mixed):
    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(PACKAGE))

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/viewer/index.html")
        page.locator("input[type=file]").set_input_files(mixed)
        expect(page.locator(".status")).to_contain_text("3 episodes")
        server.shutdown()


def test_a_server_that_is_gone_is_told(page, mixed):
    command = [sys.executable, "-m", "gym_recording", "view", str(mixed), "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", env=environment) as process:
        page.goto(process.stdout.readline().strip())
        expect(page.locator(".status")).to_contain_text("3 episodes")
        process.kill()
    expect(page.locator(".status")).to_have_text("not up to date: the server does not answer")
    expect(rows(page)).to_have_count(3)


def test_all_is_done_with_keys_and_the_help_says_how(page, serve, mixed):
    page.goto(serve(mixed))
    expect(rows(page)).to_have_count(3)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("play, pause")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("l")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    opened(page, 1)
    page.keyboard.press("Shift+ArrowRight")
    step_is(page, 6)
    page.keyboard.press("Escape")
    expect(page.locator(".episode-view")).to_be_hidden()
    expect(page.locator(".list")).to_be_focused()  # from where it was opened
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    opened(page, 2)
    page.get_by_role("button", name="all episodes").press("Enter")
    expect(page.locator(".list")).to_be_focused()


def test_the_tab_key_comes_to_what_has_keys_and_a_name(page, serve, cartpole):
    page.goto(serve(cartpole))
    expect(page.locator(".status")).to_contain_text("31 episodes")
    names = []
    while "Started" not in names or names[-1] != "open a folder":
        page.keyboard.press("Tab")
        names.append(page.evaluate(_FOCUSED))
        assert len(names) < 30
    tools, heads = ["open a folder", "light or dark", "help"], ["Episode", "Length", "Return", "Ended by", "Seed"]
    body = names.index("Started") + 1
    assert names[:body] == [*tools, "return", "length", "filter", "episodes", *heads, "Started"]
    assert names[body:-1] in ([], [""])  # the window of the browser itself


_FOCUSED = """() => {
  const { activeElement, body } = document;
  return activeElement === body ? "" : (activeElement.ariaLabel ?? activeElement.textContent.trim());
}"""


def test_a_click_in_the_list_brings_its_keys(page, serve, cartpole):
    page.goto(serve(cartpole))
    expect(page.locator(".status")).to_contain_text("31 episodes")
    page.locator(".list-body").focus()
    expect(page.locator(".list")).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator(".list-row.active .cell.episode")).to_have_text("30")


def test_light_and_dark_follow_the_system_until_one_is_chosen(page, serve, mixed):
    def ground():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.goto(serve(mixed))
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert light != dark
    page.keyboard.press("t")
    assert ground() == light
    page.reload()
    assert ground() == light
    page.get_by_role("button", name="light or dark").click()
    assert ground() == dark


FRAMES = ["dense", "missing", "sizes", "transparent", "tiny", "none"]  # what the frames of episode n are


@pytest.fixture(scope="module")
def framed(tmp_path_factory):
    """An environment whose observations are images too, of one colour; its frames are `picture`, as `FRAMES` says."""
    gymnasium = pytest.importorskip("gymnasium")

    class Framed(gymnasium.Env):
        render_mode = "rgb_array"
        observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(2)
        episode = -1

        def reset(self, *, seed=None, options=None):
            self.t, self.episode = 0, self.episode + 1
            return np.full((10, 10, 3), 7, "uint8"), {}

        def step(self, action):
            self.t += 1
            return np.full((10, 10, 3), 7, "uint8"), 1.0, False, self.t == 4, {}

        def render(self):
            kind, image = FRAMES[self.episode], picture(self.t)
            if kind == "none" or (kind == "missing" and self.t in (0, 2)):
                return None
            if kind == "sizes" and self.t > 2:
                return image[:8, :12].copy()
            if kind == "transparent":
                return np.concatenate([image, np.full((16, 24, 1), 60, "uint8")], axis=2)
            return image[:4, :3].copy() if kind == "tiny" else image

    directory = tmp_path_factory.mktemp("framed")
    env = TraceRecordingWrapper(Framed(), directory, frames=True)
    with pytest.warns(UserWarning, match="render returned None"):
        for _ in FRAMES:
            env.reset()
            for t in range(4):
                env.step(t % 2)
    env.close()
    return directory


def test_frames_are_shown_before_other_images(page, serve, framed):
    page.goto(f"{serve(framed)}#episode=0&step=2")
    canvas = page.locator(".video canvas")
    expect(page.locator(".video option")).to_have_text(["frames", "observation"])
    for step in (2, 3, 4):
        expect(canvas).to_have_attribute("data-step", str(step))
        assert pixel(page, 0, 0) == [*COLOURS[step % 3], 255]
        assert pixel(page, step + 3, 5) == [255] * 4
        page.keyboard.press("ArrowRight")
    page.get_by_label("image").select_option("observation")
    expect(page.locator(".video-about")).to_have_text("10 × 10")
    assert pixel(page, 0, 0) == [7, 7, 7, 255]


def test_a_missing_frame_is_told_and_nothing_moves(page, serve, framed):
    page.goto(f"{serve(framed)}#episode={FRAMES.index('missing')}&step=1")
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    assert pixel(page, 0, 0) == [*COLOURS[1], 255]
    place = page.locator(".panel").bounding_box()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".video-about")).to_have_text("there is none at this step")
    expect(page.locator(".video canvas")).to_be_hidden()
    assert page.locator(".panel").bounding_box() == place
    page.keyboard.press("ArrowRight")
    expect(page.locator(".video canvas")).to_be_visible()
    assert pixel(page, 0, 0) == [*COLOURS[0], 255]


def test_frames_of_any_size_and_of_four_channels_are_images(page, serve, framed):
    page.goto(f"{serve(framed)}#episode={FRAMES.index('sizes')}&step=2")
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".video-about")).to_have_text("12 × 8")
    assert pixel(page, 0, 0) == [*COLOURS[0], 255]
    page.keyboard.press("n")
    opened(page, FRAMES.index("transparent"))
    expect(page.locator(".video-about")).to_have_text("24 × 16")  # and not four grey ones
    assert pixel(page, 2, 2) == [255, 255, 255, 60]
    page.keyboard.press("n")
    expect(page.locator(".video-about")).to_have_text("3 × 4")
    assert pixel(page, 0, 0) == [*COLOURS[0], 255]
    page.keyboard.press("n")  # of which there is no frame at all
    opened(page, FRAMES.index("none"))
    expect(page.locator(".video figcaption")).to_have_text("observation10 × 10")


def test_frames_of_a_running_episode_come_as_it_grows(page, serve, tmp_path):
    """The first two are missing, and the last has another size."""
    page.goto(serve(tmp_path))
    with TraceRecording(tmp_path, durability="none", flush_interval=0, frames=True) as recording:
        recording.add_reset(0.0)
        recording.add_step(0, 1.0, 1.0)
        rows(page).click()
        opened(page, 0)
        page.keyboard.press("End")
        for t, frame in [(2, picture(2)), (3, picture(3)), (4, picture(4)[:8])]:
            recording.add_step(0, float(t), 1.0, frame=frame)
            expect(page.locator(".video canvas")).to_have_attribute("data-step", str(t))
            expect(page.locator(".video-about")).to_have_text(f"24 × {len(frame)}")
            assert pixel(page, 0, 0) == [*COLOURS[t % 3], 255]
        page.keyboard.press("Home")
        expect(page.locator(".video-about")).to_have_text("there is none at this step")


def test_numbers_are_drawn_however_few_near_or_large_they_are(page, serve, tmp_path):
    """NaN between all others, so that there is no line; less apart than ticks can be; no number at all."""
    cases = [
        [t if t % 4 == 0 else np.nan for t in range(400)],
        [1e-7 + t * 1e-13 for t in range(400)],
        [t * 5e-324 for t in range(400)],
        [(-1.0) ** t * 7e307 for t in range(400)],
        [np.nan] * 400,
    ]
    with TraceRecording(tmp_path, durability="none") as recording:
        for values in cases:
            recording.add_reset(0.0)
            for value in values:
                recording.add_step(0, 0.0, value)
    page.goto(f"{serve(tmp_path)}#episode=0")
    for number in range(len(cases)):
        opened(page, number)
        chart = page.locator(".slot").first
        expect(chart.locator(".legend-value")).to_have_text(re.compile("."))
        script = """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let count = 0;  // of pixels that are blue, as the line is
          for (let i = 0; i < data.length; i += 4) count += data[i + 3] > 60 && data[i + 2] > data[i] + 80;
          return count;
        }"""
        assert (chart.locator("canvas").evaluate(script) > 50) == (number < 4)
        page.keyboard.press("n")


def test_names_of_any_length_stay_where_they_belong(page, serve, tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset({"<i>" + 3000 * "x": 0.0, 40 * "y": {30 * "z": np.zeros(2)}})
        recording.add_step({2000 * "w": 1}, {"<i>" + 3000 * "x": 0.0, 40 * "y": {30 * "z": np.zeros(2)}}, 1.0)
    page.goto(f"{serve(tmp_path)}#episode=0")
    expect(page.locator(".episode-right .chart")).not_to_have_count(0)
    for place in (".episode-left", ".episode-right"):
        assert page.locator(place).evaluate("element => element.scrollWidth <= element.clientWidth"), place


def test_an_episode_that_is_special_says_so(page, serve, tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_step(1, "there", 2)
        recording.end_episode()
        recording.add_reset({"only": [1, {"a": None}]})
        recording.end_episode()
        recording.add_reset(np.zeros(3))
        recording.add_step("left", np.ones(3), np.array([1.0, 2.0]))
    url = serve(tmp_path)
    page.goto(f"{url}#episode=0")
    expect(page.locator(".facts")).to_contain_text("headlessyes")
    expect(page.locator(".panel-note", has_text="led to this observation")).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator(".facts")).to_contain_text("length0")
    expect(value(page, "only")).to_have_text('[1, {"a": None}]')
    page.keyboard.press("n")
    expect(page.locator(".facts")).to_contain_text("return–")  # as total_reward, which is NaN
    expect(page.locator(".panel .leaf-value").nth(1)).to_have_text("left")


def test_every_control_has_a_name(page, serve, mixed):
    page.goto(f"{serve(mixed)}#episode=0")
    expect(page.locator(".video-about")).to_have_text("24 × 16")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select")].filter((element) =>
             !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length))
             .map((element) => element.outerHTML)"""
    )
    assert unnamed == []


def test_large_images_are_read_as_they_are_seen(page, serve, tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (300, 210, 160, 3), "uint8")
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset(frames[0])
        for t in range(1, 300):
            recording.add_step(0, frames[t], 0.0)
    fetched = []
    page.on("response", lambda response: fetched.append(response.headers.get("content-length", "0")))
    page.goto(f"{serve(tmp_path)}#episode=0&step=200")
    expect(page.locator(".video-about")).to_have_text("160 × 210")
    assert pixel(page, 5, 7) == [*frames[200, 7, 5].tolist(), 255]
    page.keyboard.press("ArrowRight")
    expect(page.locator(".video canvas")).to_have_attribute("data-step", "201")
    assert pixel(page, 5, 7) == [*frames[201, 7, 5].tolist(), 255]
    assert sum(map(int, fetched)) < 6 * 2**20 < frames.nbytes
