import pytest

from recon_tf.common import UserError, nearest, run


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


def test_run_lets_program_faults_through():
  with pytest.raises(ZeroDivisionError):
    run(lambda: 1 / 0)
