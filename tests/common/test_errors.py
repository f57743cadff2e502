import errno
import os
import signal
import time

import pytest

from recon_tf.common import UserError, nearest, run
from recon_tf.common.errors import postponed


def test_nearest_names_the_closest():
  assert nearest('deterr', ['stoch', 'deter']) == " Did you mean 'deter'?"
  assert nearest('qqqq', ['stoch', 'deter']) == ''


def test_run_turns_user_error_into_one_line(capsys):
  def main():
    raise UserError("Unknown key 'a'.")

  with pytest.raises(SystemExit) as info:
    run(main)
  assert info.value.code == 1
  assert capsys.readouterr().err == "error: Unknown key 'a'.\n"


def test_run_ends_quietly_on_interrupt(capsys):
  def main():
    raise KeyboardInterrupt

  with pytest.raises(SystemExit) as info:
    run(main)
  assert info.value.code == 130
  assert capsys.readouterr().err == 'interrupted\n'


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signals_end_with_a_sentence_and_their_code(capsys, number):
  def main():
    os.kill(os.getpid(), number)
    time.sleep(5)

  with pytest.raises(SystemExit) as info:
    run(main)
  assert info.value.code == 128 + number
  assert capsys.readouterr().err == 'interrupted\n'


def test_postponed_signal_waits_for_the_end_of_the_block(capsys):
  done = []

  def main():
    with postponed() as stopping:
      os.kill(os.getpid(), signal.SIGTERM)
      while not stopping():
        time.sleep(0.01)
      done.append('saved')

  with pytest.raises(SystemExit) as info:
    run(main)
  assert (info.value.code, done) == (143, ['saved'])


def test_run_lets_program_faults_through():
  with pytest.raises(ZeroDivisionError):
    run(lambda: 1 / 0)


def test_what_the_system_refuses_is_one_line_that_names_the_file(capsys):
  def main():
    raise PermissionError(errno.EACCES, 'Permission denied', 'runs/x')

  with pytest.raises(SystemExit) as info:
    run(main)
  assert info.value.code == 1
  said = capsys.readouterr().err
  assert said.startswith("error: Cannot use 'runs/x': Permission denied;")
  assert said.count('\n') == 1


def test_other_errors_of_the_system_keep_their_traceback():
  def main():
    raise FileNotFoundError(errno.ENOENT, 'No such file or directory', 'runs/x')

  with pytest.raises(FileNotFoundError):
    run(main)
