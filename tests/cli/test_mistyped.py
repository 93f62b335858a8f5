"""A mistyped line is answered with the nearest command or option that exists, and its help."""

import pytest


@pytest.mark.parametrize(
    ("line", "error", "remedy"),
    [
        ("replicat", "no such command 'replicat'; did you mean `mmtool replicate`?", "see `mmtool replicate --help`"),
        ("Doctor", "no such command 'Doctor'; did you mean `mmtool doctor`?", "see `mmtool doctor --help`"),
        ("planned", "no such command 'planned'; did you mean `mmtool failover planned`?",
         "see `mmtool failover planned --help`"),
        ("resume", "no such command 'resume'; did you mean `mmtool failover resume` or `mmtool flow resume`?",
         "see `mmtool --help`"),
        ("groups audti", "no such command 'audti'; did you mean `mmtool groups audit`?",
         "see `mmtool groups audit --help`"),
        ("groups nothing-like-it", "no such command 'nothing-like-it'", "see `mmtool groups --help`"),
        ("replicate --until-caught-upp", "no such option: --until-caught-upp; did you mean --until-caught-up?",
         "see `mmtool replicate --help`"),
        ("acls --principle=User:a", "no such option: --principle; did you mean --principal?",
         "see `mmtool acls --help`"),
        ("failover planned --nothing-like-it", "no such option: --nothing-like-it",
         "see `mmtool failover planned --help`"),
        ("-c mm2.properties status", "no such option: -c",
         "write options after the command: `mmtool status -c mm2.properties`"),
        ("-c mm2.properties failover -g app planned", "no such option: -c",
         "write options after the command: `mmtool failover planned -c mm2.properties -g app`"),
        ("-c mm2.properties", "no such option: -c", "see `mmtool --help`"),
        ("failover -g app planned", "no such option: -g",
         "write options after the command: `mmtool failover planned -g app`"),
    ],
)  # fmt: skip
def test_it_is_one_line_and_one_remedy(mmtool, line, error, remedy):
    ended = mmtool(*line.split())
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr == f"error: {error}\nremedy: {remedy}\n"


def test_a_name_cannot_control_the_terminal(mmtool):
    assert mmtool("\x1b[31mstatus").stderr.startswith("error: no such command '\\x1b[31mstatus'")
