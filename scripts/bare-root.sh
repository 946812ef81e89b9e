# Sourced by scripts that try things in a fresh, minimal Debian or Ubuntu. Needs root and debootstrap;
# MIRROR=url overrides apt's mirror, or debootstrap's if apt has none of that suite. Works in the project's folder.

say_and_end() { echo "${0##*/}: $1" >&2; exit 1; }
((EUID == 0)) || say_and_end "needs root"
command -v debootstrap >/dev/null || say_and_end "apt-get install debootstrap"

# debootstrap and the new root use the same proxies as this machine's apt.
for way in http https; do
  name=${way}_proxy
  proxy=$(apt-config shell p "Acquire::$way::Proxy" | sed "s/^p='\(.*\)'$/\1/")
  [[ -n ${!name:-} || -z $proxy ]] || export "$name=$proxy"
done

root=$(mktemp -d /var/tmp/bare-root.XXXXXX)
clean_up() {
  local at
  for at in dev/pts proc; do
    if mountpoint -q "$root/$at"; then umount "$root/$at"; fi
  done
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# make_root SUITE PACKAGE,...   in $root
make_root() {
  local mirror script=/usr/share/debootstrap/scripts/$1 packages=$2
  # shellcheck disable=SC2016  # apt-get fills it in
  mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
                       "Release: $1" 'Component: main' | head -n 1)}
  # An older debootstrap does not know a newer Ubuntu; all have been made alike since gutsy.
  [[ -e $script ]] || script=/usr/share/debootstrap/scripts/gutsy
  local components=main
  if [[ $(readlink -f "$script") == */gutsy ]]; then
    components=main,universe
    [[ $mirror ]] || say_and_end "no $1 in apt's sources: set MIRROR"
  fi
  debootstrap --variant=minbase --components="$components" --include="$packages" "$1" "$root" \
    ${mirror:+"$mirror" "$script"} >"$root.log" 2>&1 || { tail "$root.log" >&2; rm -f "$root.log"; exit 1; }
  rm -f "$root.log"
  echo "Fresh root of $1 after $SECONDS s"
  apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99host" || true
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
  mount -t proc proc "$root/proc"
  mkdir -p "$root/dev/pts"
  mount --bind /dev/pts "$root/dev/pts"  # apt and some tests want a terminal
}

# inside COMMAND   in /root/ringsched of the new root
inside() {
  local start=$SECONDS
  printf '\n==== %s\n' "$1"
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" no_proxy="${no_proxy:-}" \
    chroot "$root" bash -c "cd /root/ringsched && $1" </dev/null
  echo "==== $1: $((SECONDS - start)) s"
}
