"""Takes viewer.png, the picture of the page in README.md: `python docs/picture.py`, with the packages gymnasium[box2d],
playwright and pillow, and Chromium."""

import io
import tempfile
import threading
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.envs.box2d.lunar_lander import heuristic
from PIL import Image
from playwright.sync_api import sync_playwright

from gym_recording import TraceRecordingWrapper
from gym_recording.viewer import RecordingServer

CHROMIUM = "/usr/bin/chromium"


class Seen(gymnasium.Wrapper):
    """What it looks like is a part of the observation."""

    def __init__(self, env):
        super().__init__(env)
        camera = gymnasium.spaces.Box(0, 255, (200, 300, 3), np.uint8)
        self.observation_space = gymnasium.spaces.Dict({"camera": camera, "state": env.observation_space})

    def observe(self, state):
        return {"camera": self.env.render()[::2, ::2], "state": state}

    def reset(self, **options):
        state, info = self.env.reset(**options)
        return self.observe(state), info

    def step(self, action):
        state, *rest = self.env.step(action)
        return (self.observe(state), *rest)


def record(directory):
    env = TraceRecordingWrapper(Seen(gymnasium.make("LunarLander-v3", render_mode="rgb_array")), directory)
    random = np.random.default_rng(4)
    for number in range(16):
        observation, _ = env.reset(seed=number)
        over = False
        while not over:
            is_good = random.random() < min(1, 0.35 + number / 12)
            action = heuristic(env.unwrapped, observation["state"]) if is_good else int(random.integers(4))
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    env.close()


def take(url):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 760})
        page.goto(f"{url}#episode=12&step=70")
        page.locator(".video canvas[data-step='70']").wait_for()
        page.locator("progress").wait_for(state="hidden")
        page.locator(".chart", has_text="state[7]").wait_for()
        return page.screenshot()


with tempfile.TemporaryDirectory() as parent:
    directory = Path(parent, "lander")
    record(directory)
    with RecordingServer(directory) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        picture = Image.open(io.BytesIO(take(server.url))).convert("RGB")
        server.shutdown()
colours = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
colours.save(Path(__file__).with_name("viewer.png"), optimize=True)
