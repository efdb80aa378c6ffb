"""The toolbox, but the process that first starts one task ends there, as the out-of-memory killer would end it."""

import os
import signal
from pathlib import Path

from composer_replication.environments.toolbox.environment import open_toolbox


def open_deadly(config):
    environment = open_toolbox(config)
    start, settings = environment.start, config.environment.settings
    deadly = [task.task_id for _, task in zip(range(25), environment.tasks("train", "ingestion"), strict=False)][-1]

    def start_or_die(task):
        deaths = Path(settings["deaths"])
        if task.task_id == deadly and len(deaths.read_text()) < settings["most"]:
            with deaths.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return start(task)

    environment.start = start_or_die
    return environment
