"""The bench's document as tables for people."""

from __future__ import annotations

from collections.abc import Mapping

from simulators.photos.bench import PhotosBench, Table, best_fixed


def tables(found: PhotosBench) -> str:
    """All sections, one under the other."""
    several = _newcomers("several new classes at once", found.several) if found.several else ""
    new = _newcomers("a new class from five photographs", found.new_class)
    return "\n\n".join(filter(None, [_accuracy(found.accuracy), new, several, _rest(found)]))


def _accuracy(accuracy: Mapping[str, Table]) -> str:
    lines = [
        "accuracy on photographs held back, by labels a class and domain",
        f"{'labels':>7}{'nearest':>9}{'cosine':>9}{'best fixed':>22}{'fleet':>9}{'ρ':>7}{'T':>6}",
    ]
    for shots, table in accuracy.items():
        rule, best = best_fixed(table)
        lines.append(
            f"{shots:>7}{_percent(table['nearest'])}{_percent(table['cosine'])}"
            f"{_percent(best)} {rule:<12}{_percent(table['fleet'])}"
            f"{table['shrinkage']:>7.3g}{table['temperature']:>6.2g}"
        )
    return "\n".join([*lines, "best fixed: picked on the photographs that it is tested on"])


def _newcomers(title: str, rows: Mapping[str, Table]) -> str:
    lines = [title, f"{'':<17}{'new':>9}{'others':>9}{'after':>9}{'harmonic':>10}"]
    for key, row in rows.items():
        values = (row[part] for part in ("new", "others_before", "others_after"))
        name = {"fleet_one_device": "of one device"}.get(key, key)
        lines.append(f"{name:<17}{''.join(map(_percent, values))}{_percent(row['harmonic']):>10}")
    return "\n".join(lines)


def _rest(found: PhotosBench) -> str:
    odd, suspects = found.unknown, found.suspects
    return "\n".join(
        [
            f"unseen domain: {100 * found.unseen['plain']:.1f} % as it is, "
            f"{100 * found.unseen['aligned']:.1f} % aligned by its unlabelled mean",
            f"unknown: AUROC {odd['auroc']:.3f}; {100 * odd['false_alarms']:.1f} % false alarms "
            f"where 5 were asked for, {100 * odd['rejected']:.1f} % of unknown things rejected",
            f"calibration error (ECE, 15 bins): {found.calibration_error:.3f}",
            f"swapped classes named: {100 * suspects['named']:.1f} % of {suspects['swapped']:.0f}; "
            f"falsely suspected: {suspects['false']:.0f} of {suspects['of']:.0f}",
            f"bytes of a device: {found.bytes['up'] / 1000:.0f} kB up, "
            f"{found.bytes['down'] / 1000:.0f} kB down",
        ]
    )


def _percent(share: float) -> str:
    return f"{100 * share:>7.1f} %"
