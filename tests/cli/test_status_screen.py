"""What ``mmtool status`` draws at 80 and at 200 columns, without colour."""

from mmtool.commands.status import columns as of_status
from mmtool.output import Result
from mmtool.output.layout import draw, fitted, layout

LONG = f"payments.settlement.{'of-every-merchant.' * 10}v2.events"
SAME = {
    "upstream_position": 1_234_567,
    "downstream_position": 1_234_567,
    "records": 88,
    "bytes": 9999,
    "records_per_second": 17.25,
    "bytes_per_second": 17_250.5,
    "state_seconds": 7500.0,
}


def row(topic, partition, state, lag=0, seconds=0.0, reason="", flow=("east", "west")):
    return {
        "source": flow[0],
        "target": flow[1],
        "topic": topic,
        "partition": partition,
        "target_topic": f"{flow[0]}.{topic}",
        **SAME,
        "lag_records": lag,
        "lag_seconds": seconds,
        "state": state,
        "reason": reason,
    }


ROWS = [
    row(LONG, 0, "halted", 40, 12.5, "the source deleted offsets 5 to 14 before they were mirrored"),
    row("orders", 0, "running", 1200, 0.8),
    row("orders", 1, "caught_up"),
]


def screen(rows, columns):
    return draw(fitted(layout(Result("status", rows, of_status())), columns), columns=columns)


def test_at_80_columns_a_long_topic_name_is_shortened_and_its_reason_stands_below_it():
    assert screen(ROWS, 80) == (
        "In every row: SOURCE east, TARGET west, UPSTREAM-POSITION 1234567,\n"
        "  DOWNSTREAM-POSITION 1234567, RECORDS 88, BYTES 9999, RECORDS-PER-SECOND 17.2,\n"
        "  BYTES-PER-SECOND 17250.5, STATE-AGE 2h 5m\n"
        "                                          LAG-  LAG-\n"
        "TOPIC                       PARTITION  RECORDS  TIME  STATE\n"
        "payments.set...t.v2.events          0       40   12s  halted\n"
        "    the source deleted offsets 5 to 14 before they were mirrored\n"
        "orders                              0     1200  0.8s  running\n"
        "orders                              1        0  0.0s  caught_up\n"
    )


def test_in_a_pipe_names_are_whole_and_a_row_is_a_line():
    text = draw(layout(Result("status", ROWS, of_status())))
    assert (text.count("\n"), f" {LONG} " in text, f" east.{LONG} " in text) == (4, True, True)


def test_names_that_would_look_the_same_are_not_shortened():
    alike = [row(f"{LONG[:60]}{middle}{LONG[60:]}", 0, "running") for middle in "ab"]
    text = screen(alike, 80).replace("\n", "")
    assert "..." not in text
