"""Devices that train, and what they send."""


def agents(setup, count=2):
    context = setup.context()
    return [setup.agent(shard, context) for shard in setup.partition.shards[:count]]


def sent(agent, rounds=2):
    agent.receive(0, {}, {})
    for round in range(1, rounds + 1):
        parts = agent.work(round)
    return parts["prototypes"]
