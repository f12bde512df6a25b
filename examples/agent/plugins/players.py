#!/usr/bin/env python3
"""A plugin of pillion-agent: publishes the number of players that the game writes into a file.

Lines of JSON come in on standard input and go out on standard output; docs/agent.md describes them.
"""
import json
import sys
import threading


def say(**message):
    print(json.dumps(message), flush=True)


def look(path, stopped):
    last = None
    while not stopped.wait(0.2):
        try:
            with open(path) as file:
                players = file.read().strip()
        except OSError as error:
            say(type="store", failed=str(error))
            continue
        if players != last:
            last = players
            say(type="store", data=players)
            say(type="status", message=f"{players} players")


stopped = threading.Event()
path = None
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "init":
        path = (message["config"] or {}).get("file", "/game/players")
        say(type="hello", version="v1.0.0")
    elif message["type"] == "start":
        threading.Thread(target=look, args=(path, stopped), daemon=True).start()
    elif message["type"] == "stop":
        break
stopped.set()
