"""`edge-agent config check`: settings and samples are right before anything is started."""


def test_check_names_what_is_wrong(call, tmp_path):
    (tmp_path / "agent.toml").write_text('[broker]\nurl = "mqtt://x"\ncredential = "f"\n')
    found = call("config", "check")
    assert found.returncode == 2
    assert found.stderr.startswith(
        "error: unknown setting 'broker.credential'; did you mean 'credentials'?"
    )


def test_what_init_writes_is_right_and_check_says_what_it_comes_to(call):
    assert call("init", "--id", "camera-07", "--fleet", "orchard", "--data", "digits").stderr == ""
    device, broker, folder, samples = call("config", "check").stdout.splitlines()
    assert device == "device   camera-07 in fleet orchard"
    assert (broker.split()[0], folder.split()[0]) == ("broker", "keeps")
    assert samples == "learns   1346 samples of 10 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"


def test_a_password_that_would_go_in_the_open_is_said(call):
    url = "mqtt://camera-07:s3cr3t@192.0.2.7"
    checked = call("config", "check", "--id", "camera-07", "--data", "digits", "--broker", url)
    assert checked.returncode == 0
    assert checked.stderr.count("goes over the network as it is: use mqtts://") == 1
    assert "s3cr3t" not in checked.stderr + checked.stdout
