from __future__ import annotations
import sys, time, argparse
from tests.explorer.scenes import SCENES
from tests.explorer.search import Search, replay, read_path
p = argparse.ArgumentParser()
p.add_argument("--scene"); p.add_argument("--path"); p.add_argument("--deep", action="store_true"); p.add_argument("--limit", type=int, default=0)
a = p.parse_args()
import gc; gc.disable()
for scene in SCENES:
    if a.scene and scene.name != a.scene: continue
    bounds = scene.deep if a.deep else scene.quick
    if a.path:
        path = replay(scene, bounds, read_path(a.path))
        print("\n".join(path.trail)); 
        from tests.explorer.ending import what_is_wrong_at_the_end
        print(what_is_wrong_at_the_end(path.stage, scene)); continue
    t = time.process_time(); s = Search(scene, bounds, a.limit); s.run()
    print(scene.name, s.states, "states", s.paths, "paths", round(time.process_time()-t,1), "s", "complete" if s.complete else "cut")
    for f in s.findings: print("  ", f.says, "\n     ", f.command())
