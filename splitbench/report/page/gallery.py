"""What an attacker sees: originals, what was recovered of them, and the same where nothing defends."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from splitbench.report.page.gather import Gathered, prose
from splitbench.report.page.verdicts import Faced, Standing, score
from splitbench.report.pictures import Images, originals_of, recovered_of, shows_images
from splitbench.store.outcome import Outcome

PAIRS = 36  # of attack and defense
ACROSS = 8  # images of each
LARGEST = 64  # pixels of a side on the page
BYTES = 8_000_000  # of all pictures together


@dataclass(frozen=True)
class Strip:
    """A row of pictures as one image, and their scores."""

    name: str
    picture: str  # a data URI
    alt: str
    scores: tuple[str, ...] = ()
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class GalleryEntry:
    standing: Standing
    faced: Faced
    outcome: Outcome  # of the seed and rung of knowledge that leak most
    of: str  # how many there were of each
    strips: tuple[Strip, ...]
    uncalibrated: bool


@dataclass(frozen=True)
class Gallery:
    entries: tuple[GalleryEntry, ...]
    left_out: int
    without: int  # pairs whose pictures are not in the store


def gallery(rows: Gathered, standings: Sequence[Standing], most: int = PAIRS) -> Gallery:
    """Worst leak first; bounds, which no adversary reaches, after the attacks. Twins stand beside, not apart.

    If there are too many, the worst of each defense is chosen before a second one of any.
    """
    beside = {o.twin for s in standings if s.verdict != "undefended" for f in s.faced for o in f.outcomes}
    found: dict[tuple[int, str], list[tuple[Standing, Faced, Outcome]]] = {}
    for place, standing in enumerate(standings):
        for faced in standing.faced:
            done = [o for o in faced.outcomes if shows_images(o) and score(o) is not None]
            if not (standing.verdict == "undefended" and all(o.key in beside for o in done)):
                found.setdefault((place, faced.attack), []).extend((standing, faced, o) for o in done)
    pairs = [(max(group, key=lambda g: _value(g[2])), _of(group)) for group in found.values() if group]
    pairs.sort(key=_leak)
    first = {id(pair[0][0]): i for i, pair in reversed(list(enumerate(pairs)))}  # of each defense, what leaks most
    chosen = sorted(enumerate(pairs), key=lambda p: (first[id(p[1][0][0])] != p[0], p[0]))
    entries: list[GalleryEntry] = []
    without = size = seen = 0
    here = set(rows.store.runs())
    for _, ((standing, faced, outcome), of) in chosen:
        if len(entries) >= most or size > BYTES:
            break
        seen += 1
        strips = _strips(rows, outcome) if outcome.run in here else ()
        if strips:
            size += sum(len(strip.picture) for strip in strips)
            entries.append(GalleryEntry(standing, faced, outcome, of, strips, not faced.seen.calibrated))
        else:
            without += 1
    ordered = sorted(entries, key=lambda e: _leak(((e.standing, e.faced, e.outcome), e.of)))
    return Gallery(tuple(ordered), len(pairs) - seen, without)


def _leak(pair: tuple[tuple[Standing, Faced, Outcome], str]) -> tuple[bool, float]:
    (_, faced, outcome), _ = pair
    return faced.role != "attack", -_value(outcome)


def _value(outcome: Outcome) -> float:
    return outcome.ranked[outcome.ranking]


def _of(group: Sequence[tuple[Standing, Faced, Outcome]]) -> str:
    rungs, seeds = len({o.knowledge for _, _, o in group}), len({o.seed for _, _, o in group})
    said = [f"{rungs} rungs of knowledge"] if rungs > 1 else []
    said += [f"{seeds} seeds"] if seeds > 1 else []
    return f", the worst of {' and '.join(said)}" if said else ""


def _strips(rows: Gathered, outcome: Outcome) -> tuple[Strip, ...]:
    recovered, originals = (read(rows.store, outcome, rows.problems) for read in (recovered_of, originals_of))
    scored, leak = outcome.score(outcome.ranking), prose(outcome.ranking)
    if recovered is None or originals is None or scored is None:
        return ()
    count = min(len(recovered), len(originals), len(scored.values) or len(recovered))
    values = scored.values[:count]
    order = np.argsort(-np.array(values), kind="stable")[:ACROSS] if values else np.arange(min(count, ACROSS))

    def strip(name: str, images: Images, alt: str, scores: Sequence[float] = ()) -> Strip:
        said = tuple(f"{scores[i]:.2f}" for i in order) if len(scores) else ()
        picture, width, height = _picture(images[order])
        return Strip(name, picture, f"{alt}{': ' + leak + ' ' + ', '.join(said) if said else ''}", said, width, height)

    what = f"{len(order)} images of {outcome.dataset}"
    found = [
        strip("original", originals, f"Originals, {what}"),
        strip("recovered", recovered, f"Recovered by {outcome.adversary} through {outcome.defense}", values),
    ]
    twin = rows.by_key.get(outcome.twin)
    if twin is not None and twin.key != outcome.key and twin.samples == outcome.samples:
        undefended, beside = recovered_of(rows.store, twin, rows.problems), twin.score(twin.ranking)
        if undefended is not None and beside is not None and len(undefended) >= count:
            alt = f"Recovered by {twin.adversary} where nothing defends"
            found.append(strip("undefended", undefended, alt, beside.values[:count]))
    return tuple(found)


def _picture(images: Images) -> tuple[str, int, int]:
    """Side by side with a transparent gap, as a PNG in a data URI: nothing is lost, it is evidence."""
    count, height, width, channels = images.shape
    if max(height, width) > LARGEST:
        scale = LARGEST / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        images = np.stack(
            [np.asarray(Image.fromarray(i.squeeze()).resize(size)).reshape(*size[::-1], -1) for i in images]
        )
        count, height, width, channels = images.shape
    opaque = np.full((count, height, width, 1), 255, np.uint8)
    tiles = np.pad(np.concatenate([images, opaque], axis=3), ((0, 0), (0, 0), (0, 1), (0, 0)))
    sheet = np.concatenate(list(tiles), axis=1)[:, :-1]
    out = io.BytesIO()
    Image.fromarray(sheet, "LA" if channels == 1 else "RGBA").save(out, "PNG", optimize=True)
    uri = "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
    return uri, sheet.shape[1], sheet.shape[0]
