"""The link between devices and coordinator: topics, one durable connection, large payloads in
pieces, brokers.

Nothing here imports the broker client before a link is started.
"""
