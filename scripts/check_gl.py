"""Renders one small image; fails when the GL library is missing or draws nothing."""

import mujoco

MODEL = """
<mujoco>
  <worldbody>
    <light pos="0 0 3"/>
    <geom type="sphere" size="0.5" rgba="1 0 0 1"/>
  </worldbody>
</mujoco>
"""


def main():
  model = mujoco.MjModel.from_xml_string(MODEL)
  data = mujoco.MjData(model)
  mujoco.mj_forward(model, data)
  with mujoco.Renderer(model, 64, 64) as renderer:
    renderer.update_scene(data)
    image = renderer.render()
  if image[..., 0].max() == image[..., 0].min():
    raise SystemExit('The rendered image is empty.')


if __name__ == '__main__':
  main()
