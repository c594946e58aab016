#!/usr/bin/env bash
# A class that the fleet never saw, from five photos on one device to every device: Fashion-MNIST without its bags
# where PROTOFLEET_DATA has it, else digits without their nines. Takes a few minutes; prints what it found.
set -euo pipefail

work=$(mktemp -d)
running=()
cleanup() {
  for process in "${running[@]}"; do kill "$process" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
python=${PYTHON:-python3}
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=mqtt://127.0.0.1:$port

"$python" - "$work" <<'PY'
import os, sys
from pathlib import Path
import numpy as np
from PIL import Image
from edge_agent.data.sets import load

work, folder = Path(sys.argv[1]), os.environ.get("PROTOFLEET_DATA")
fashion = folder is not None and (Path(folder) / "fashion-mnist.npz").exists()
data = load("fashion-mnist" if fashion else "digits", data_dir=Path(folder) if folder else None)
held = data.classes.index("Bag" if fashion else "9")
known = [i for i in range(len(data.classes)) if i != held]
split = {"train": np.arange(data.n_train), "test": np.arange(data.n_train, len(data.y))}
arrays = {"classes": np.array([data.classes[i] for i in known]), "mean": data.input.mean, "std": data.input.std}
for name, rows in split.items():
    rows = rows[data.y[rows] != held]
    rows = rows[: 12_000 if name == "train" else 2000]
    arrays |= {f"x_{name}": data.x[rows], f"y_{name}": np.searchsorted(known, data.y[rows])}
np.savez(work / "known.npz", **arrays)
for kind, rows, most in (("photos", split["train"], 5), ("test", split["test"], 100)):
    for label in range(len(data.classes)) if kind == "test" else [held]:
        for i, row in enumerate(rows[data.y[rows] == label][:most]):
            path = work / kind / data.classes[label].replace("/", "-") / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(data.x[row, :, :, 0]).save(path)
(work / "label").write_text(data.classes[held])
(work / "backbone").write_text("cnn4" if fashion else "mlp")
PY
label=$(cat "$work/label")

echo "== the fleet learns every class but $label"
protofleet simulate --method fedpac --dataset "$work/known.npz" --agents 4 --partition iid --rounds 4 \
  --backbone "$(cat "$work/backbone")" --batch-size 32 --lr 0.02 --eval-every 4 --out "$work/run" | grep best
protofleet export --from "$work/run" --freeze --out "$work/bundle"
mkdir "$work/a" "$work/b"
cp -r "$work/bundle" "$work/a/bundle"
cp -r "$work/bundle" "$work/b/bundle"

echo "== a coordinator publishes the bundle's prototypes; device b classifies and follows"
{
  edge-agent contract --data "$work/known.npz"
  printf '[serve]\nfleet = "lab"\nmethod = "fedpac"\nmin_agents = 1000\ndata_dir = "%s"\n' "$work/coordinator"
} > "$work/fleet.toml"
coordinator serve --config "$work/fleet.toml" --broker "$url" --with-broker 2> "$work/coordinator.log" &
running+=($!)
for _ in $(seq 100); do
  coordinator freeze "$work/bundle" --data-dir "$work/coordinator" > "$work/frozen.txt" 2>&1 && break
  sleep 0.3
done
head -1 "$work/frozen.txt"
mkfifo "$work/asked"
edge-agent infer --bundle "$work/b/bundle" --follow "$url" --stdin --json < "$work/asked" >> "$work/answers" 2> "$work/b.log" &
running+=($!)
exec 3> "$work/asked"
for _ in $(seq 100); do grep -q "new prototypes" "$work/b.log" && break; sleep 0.2; done

accuracy() {
  "$python" - "$work" "$1" "$label" <<'PY'
import json, sys
from pathlib import Path
work, name, label = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
rows = [json.loads(line) for line in (work / "answers").read_text().splitlines() if '"label"' in line]
right = {True: [], False: []}
for row in rows:
    true = Path(row["path"]).parent.name
    right[true == label.replace("/", "-")].append((row["label"] or "").replace("/", "-") == true)
share = {each: 100 * sum(found) / len(found) for each, found in right.items()}
print(f"{name}: {label} {share[True]:.1f} %, the other classes {share[False]:.2f} % ({len(rows)} photos)")
PY
}
ask_all() {
  : > "$work/answers"
  find "$work/test" -name '*.png' | sort >&3
  total=$(find "$work/test" -name '*.png' | wc -l)
  for _ in $(seq 300); do [ "$(wc -l < "$work/answers")" -ge "$total" ] && break; sleep 0.2; done
}
ask_all
accuracy "device b before"

echo "== five photos of $label on device a"
edge-agent enroll --bundle "$work/a/bundle" --label "$label" --offer "$url" --id device-a "$work/photos"
enrolled=$(date +%s.%N)
for _ in $(seq 100); do
  [ "$(grep -c "new prototypes" "$work/b.log")" -ge 2 ] && break
  sleep 0.02
done
"$python" -c 'import sys; print(f"device b has it {max(0.0, float(sys.argv[2]) - float(sys.argv[1])):.2f} s after the command ended")' \
  "$enrolled" "$(date +%s.%N)"
ask_all
accuracy "device b after"

echo "== and back"
coordinator classes remove "$label" --data-dir "$work/coordinator" | tail -1
edge-agent forget --bundle "$work/a/bundle" --label "$label"
