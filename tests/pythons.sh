# find_python X.Y: from pyenv or PATH; tried, because a shim of pyenv can be there and yet not run. Empty if there is none.
find_python() {
  local candidate
  for candidate in ~/.pyenv/versions/"$1".*/bin/python "python$1" python3; do
    if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ]; then
      echo "$candidate"
      return
    fi
  done
}
