"""No process of ours inherits what lets one in at the broker."""

from protofleet.util.processes import without_secrets


def test_the_broker_s_secrets_stay_and_the_rest_goes_on():
    rest = {"PATH": "/bin", "PROTOFLEET_DATA": "/data", "OMP_NUM_THREADS": "1"}
    secret = {
        "PROTOFLEET_MQTT_USERNAME": "camera-07",
        "PROTOFLEET_MQTT_PASSWORD": "secret",
        "PROTOFLEET_BROKER_URL": "mqtts://camera-07:secret@b",
        "PROTOFLEET_BROKER_CREDENTIALS": "/run/secret",
        "CREDENTIALS_DIRECTORY": "/run/credentials",
    }
    assert without_secrets({**rest, **secret}) == rest
