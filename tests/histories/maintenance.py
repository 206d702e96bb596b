"""Operations that change no row: compaction, manifests, expiry, and moving refs about."""

from __future__ import annotations

from tests.histories.history import History

# What Iceberg may rightly refuse; anything else that it says is a fault of the generator.
CONFLICTS = (
    "is not an ancestor",
    "Cannot cherry-pick",
    "Cannot cherrypick",
    "cannot cherry-pick",
    "Cannot commit, found conflicting",
    "missing parent",
    "unknown parent",
    "Missing required files to delete",  # the staged overwrite replaces files that are gone by now
)


def refusable(h: History, what: str, statement: str) -> bool:
    try:
        h.sql(statement)
    except Exception as error:
        if not any(text in str(error) for text in CONFLICTS):
            raise
        h.transcript.append(f"-- refused: {str(error).splitlines()[0]}")
        h.refused[what] += 1
        return False
    return True


def compact(h: History) -> None:
    options = {"rewrite-all": "true"} if h.rng.random() < 0.7 else {"min-input-files": "2"}
    pairs = ", ".join(f"'{k}', '{v}'" for k, v in options.items())
    h.sql(f"CALL system.rewrite_data_files(table => '{h.name}', options => map({pairs}))")
    h.observe()


def rewrite_manifests(h: History) -> None:
    h.sql(f"CALL system.rewrite_manifests(table => '{h.name}')")
    h.observe()


def rewrite_delete_files(h: History) -> None:
    h.sql(f"CALL system.rewrite_position_delete_files(table => '{h.name}', options => map('rewrite-all', 'true'))")
    h.observe()


def expire(h: History) -> None:
    keep = h.rng.randint(1, 4)
    h.sql(
        f"CALL system.expire_snapshots(table => '{h.name}', older_than => TIMESTAMP'2100-01-01 00:00:00', retain_last => {keep})"
    )
    h.observe()
    h.staged = [s for s in h.staged if s in h.present]


def roll_back(h: History) -> None:
    ancestors = h.chain(h.head)[1:4]
    h.sql(f"CALL system.rollback_to_snapshot('{h.name}', {h.rng.choice(ancestors)})")
    h.observe()


def set_current(h: History) -> None:
    """Point main at any snapshot: forwards again after a roll-back, at a branch's commit, before a replacement."""
    h.sql(f"CALL system.set_current_snapshot('{h.name}', {h.rng.choice(sorted(h.present))})")
    h.observe()


def cherry_pick(h: History) -> None:
    staged = h.staged.pop(h.rng.randrange(len(h.staged)))
    commit = h.commits[staged]
    # Its own rows only: what else was alive when it was staged may have been changed since.
    rows = {rid: commit.live[rid] for rid in commit.written if rid in commit.live}
    if refusable(h, "cherry_pick", f"CALL system.cherrypick_snapshot('{h.name}', {staged})"):
        h.observe(rows)


def create_branch(h: History) -> None:
    at = h.rng.choice(h.chain(h.head)[:3])
    h.sql(f"ALTER TABLE {h.name} CREATE BRANCH {h.label('b')} AS OF VERSION {at}")
    h.observe()


def create_tag(h: History) -> None:
    at = h.rng.choice(h.chain(h.head)[:4])
    h.sql(f"ALTER TABLE {h.name} CREATE TAG {h.label('v')} AS OF VERSION {at}")
    h.observe()


def fast_forward(h: History) -> None:
    branch = h.rng.choice(h.branches)
    if refusable(h, "fast_forward", f"CALL system.fast_forward('{h.name}', 'main', '{branch}')"):
        h.observe()


def drop_branch(h: History) -> None:
    h.sql(f"ALTER TABLE {h.name} DROP BRANCH {h.rng.choice(h.branches)}")
    h.observe()
