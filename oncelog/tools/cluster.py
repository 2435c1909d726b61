"""`oncelog cluster`: its nodes, data directories and features.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`).
"""

import click

from oncelog.tools.asking import Session, Shown, asks, pairs, planned

_MAX_LEVEL = 2**15 - 1


@click.group()
def cluster() -> None:
    """Describe the cluster: nodes, data directories, features."""


@asks(cluster)
async def describe(session: Session) -> Shown:
    """Show the cluster's id, its nodes as they advertise themselves, and its features: level, and what is supported."""
    found = await session.admin.describe_cluster()
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id,
        "nodes": [
            {"node_id": node_id, "host": host, "port": port} for node_id, (host, port) in sorted(found.nodes.items())
        ],
        "features": [
            {"feature": name, "level": found.finalized_features.get(name, 0), "lowest": lowest, "highest": highest}
            for name, (lowest, highest) in sorted(found.supported_features.items())
        ],
    }


@asks(cluster, "log-dirs")
@click.option("--partitions", is_flag=True, help="Each partition, the largest first.")
async def log_dirs(session: Session, partitions: bool) -> Shown:
    """Show the data directories, and how full they are, in bytes."""
    found = await session.admin.describe_log_dirs()
    if partitions:
        sizes = [(size, place, each) for each in found for place, size in each.sizes_bytes.items()]
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "bytes": size,
                "node_id": each.node_id,
                "path": each.path,
            }
            for size, place, each in sorted(sizes, key=lambda item: (-item[0], item[1]))
        ]
    return [
        {
            "node_id": each.node_id,
            "path": each.path,
            "partitions": len(each.sizes_bytes),
            "bytes": sum(each.sizes_bytes.values()),
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
        }
        for each in found
    ]


def _levels(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for name, level in pairs(context, parameter, texts).items():
        if not level.isdecimal() or int(level) > _MAX_LEVEL:
            raise click.BadParameter(f"{level!r} is not a level: it must be a number up to {_MAX_LEVEL}")
        levels[name] = int(level)
    return levels


@asks(cluster)
@click.option("--feature", "levels", metavar="NAME=LEVEL", multiple=True, required=True, callback=_levels)
@click.option("--downgrade", is_flag=True, help="Lower levels are intended.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it, and change nothing.")
async def alter(session: Session, levels: dict[str, int], downgrade: bool, dry_run: bool) -> Shown:
    """Finalize features at other levels, all or none: transaction.version, group.version and others."""
    await session.admin.update_features(levels, allow_downgrade=downgrade, validate_only=dry_run)
    return planned([{"feature": name, "level": level} for name, level in levels.items()], dry_run)
