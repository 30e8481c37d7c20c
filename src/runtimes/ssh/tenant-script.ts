/** Scripts that inspect a host and set up a tenant. The common part is in script.ts. */
import { constantScript } from './script.ts'

/** Runs every few seconds on every host: it starts as few processes as it can. */
export const inspectScript = constantScript(
  'look',
  ['user'],
  String.raw`
IFS= read -r boot < /proc/sys/kernel/random/boot_id || fail 'cannot read the boot id'
printf 'boot %s\n' "$boot"
if [ -e "$marker" ]; then
  echo 'marker yes'
  sed 's/^/marker./' "$marker" || fail "cannot read $marker"
fi
if is_user "$user"; then echo 'user yes'; fi
cd "$state/disks" 2> /dev/null || exit 0
for volume in *; do
  [ -f "$volume" ] && IFS= read -r at < "$volume" || continue
  if is_mounted "$at"; then printf 'disk %s\n' "$volume"; fi
done
`,
)

export const hardwareScript = constantScript(
  'read hardware',
  ['gpus'],
  String.raw`
printf 'cores %s\n' "$(grep -c '^processor' /proc/cpuinfo)"
printf 'memory %s\n' "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
if [ "$gpus" = yes ] && command -v nvidia-smi > /dev/null; then
  nvidia-smi --query-gpu=name --format=csv,noheader | sed 's/^/gpu /'
fi
exit 0
`,
)

/** Marks the host as taken before anything is created. Prints the marker. */
export const takeScript = constantScript(
  'claim the host',
  ['tag', 'id', 'user'],
  String.raw`
exclusive
mkdir -p "$state" || fail "cannot create $state"
if [ ! -e "$marker" ]; then
  printf 'tag %s\nid %s\nuser %s\nphase taken\n' "$tag" "$id" "$user" > "$marker.new" && mv "$marker.new" "$marker" ||
    fail "cannot write $marker"
  settle
fi
printf 'tag %s\nphase %s\n' "$(field tag)" "$(field phase)"
`,
)

/**
 * Creates user and keys. The uid is the same on all hosts where it is free, so that files on a shared volume keep their
 * owner. The user gets no subordinate uids: their files could not be attributed during cleaning.
 */
export const makeScript = constantScript(
  'set up the tenant',
  ['user', 'keys', 'peers', 'block', 'clusterKey', 'clusterConfig', 'root', 'setup', 'scripts'],
  String.raw`
exclusive
note phase making
home=/home/$user
shell=/bin/sh
[ ! -x /bin/bash ] || shell=/bin/bash
if ! is_user "$user"; then
  uid=20001
  while grep -q "^[^:]*:[^:]*:$uid:" /etc/passwd || grep -q "^[^:]*:[^:]*:$uid:" /etc/group; do uid=$((uid + 1)); done
  note uid "$uid"
  sed -i "/^$user:/d" /etc/group || fail 'cannot change /etc/group'
  if command -v useradd > /dev/null; then
    useradd -M -U -u "$uid" -d "$home" -s "$shell" -p '*' "$user" || fail 'cannot add the user'
  elif command -v adduser > /dev/null && adduser --help 2>&1 | grep -q BusyBox; then
    adduser -D -H -u "$uid" -h "$home" -s "$shell" "$user" || fail 'cannot add the user'
  else
    printf '%s:x:%s:\n' "$user" "$uid" >> /etc/group &&
      printf '%s:x:%s:%s::%s:%s\n' "$user" "$uid" "$uid" "$home" "$shell" >> /etc/passwd &&
      printf '%s:*:19000:0:99999:7:::\n' "$user" >> /etc/shadow || fail 'cannot add the user'
  fi
  for one in /etc/subuid /etc/subgid; do [ ! -e "$one" ] || sed -i "/^$user:/d" "$one"; done
fi
# An impossible password; "!" would count as locked.
sed -i "s/^$user:[^:]*:/$user:*:/" /etc/shadow || fail 'cannot change /etc/shadow'
uid=$(uid_of "$user")
[ -n "$uid" ] || fail 'the user does not exist'
note uid "$uid"
mkdir -p "$home/.ssh" || fail "cannot create $home"
if [ -d /etc/skel ] && [ ! -e "$home/.profile" ]; then cp -R /etc/skel/. "$home/"; fi
printf '%s\n' "$keys" > "$home/.ssh/authorized_keys" || fail 'cannot write the keys'
printf '%s\n' "$peers" > "$home/hosts" && chmod 644 "$home/hosts" || fail 'cannot write the list of hosts'
if [ -n "$clusterKey" ]; then
  printf '%s\n' "$clusterKey" > "$home/.ssh/berth_cluster" &&
    printf '%s\n' "$clusterConfig" > "$home/.ssh/config" || fail 'cannot write the key of the rental'
fi
chown -R "$uid:$(id -g "$user")" "$home" && chmod 700 "$home" "$home/.ssh" || fail 'cannot change the owner of the home'
if [ -n "$block" ]; then
  { without_block; printf '# berth begin\n%s\n# berth end\n' "$block"; } > "$state/hosts.new" &&
    cat "$state/hosts.new" > /etc/hosts || fail 'cannot write /etc/hosts'
  rm -f "$state/hosts.new"
fi
if [ "$root" = yes ] && [ -d /etc/sudoers.d ]; then
  printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$user" > /etc/sudoers.d/berth-tenant &&
    chmod 440 /etc/sudoers.d/berth-tenant || fail 'cannot grant sudo'
fi
# As the tenant, through standard input: nothing of it is visible in the list of processes.
as_tenant() { HOME=$home su -s /bin/sh -c 'exec /bin/sh -s' "$user"; }
if [ -n "$setup" ] && [ -z "$(field setup)" ]; then
  printf '%s\n' "$setup" | as_tenant > "$home/start.log" 2>&1
  chown "$uid" "$home/start.log"
  note setup done
fi
note boot "$(boot_id)"
note phase ready
if [ -n "$scripts" ] && [ -z "$(field scripts)" ]; then
  note scripts begun
  printf '%s\n' "$scripts" > "$home/.berth-scripts" && chown "$uid" "$home/.berth-scripts" || fail 'cannot write the scripts'
  (trap '' HUP; cd "$home" && HOME=$home exec su -s /bin/sh -c 'exec /bin/sh ./.berth-scripts' "$user") >> "$home/start.log" 2>&1 < /dev/null &
fi
settle
`,
)

/** Reboots for a tenant, who stays. The count is stored first, so that a crash can lose a reboot but not repeat it. */
export const tenantRebootScript = constantScript(
  'reboot',
  ['id', 'reboots'],
  String.raw`
exclusive
[ "$(field id)" = "$id" ] && [ "$(field phase)" = ready ] || fail 'the tenant is not on the host'
note reboots "$reboots"
settle
rm -rf "$held"
reboot || shutdown -r now || fail 'cannot reboot'
`,
)

/** Mounts an NFS volume, without mount.nfs if it is not installed. */
export const mountScript = constantScript(
  'mount',
  ['volume', 'label', 'server', 'path', 'client'],
  String.raw`
exclusive
uid=$(field uid)
record=$state/disks/$volume
mkdir -p "$state/disks" || fail 'cannot record the mount'
if [ ! -s "$record" ]; then
  at=/mnt/$label
  [ ! -e "$at" ] || at=/mnt/$label-$volume
  printf '%s\n' "$at" > "$record" || fail 'cannot record the mount'
fi
at=$(cat "$record")
if ! is_mounted "$at"; then
  (umask 022; mkdir -p "$at") || fail "cannot create $at"
  plain=rw,hard,nosuid,nodev,vers=4.1
  if ! limited mount -t nfs4 -o "$plain" "$server:$path" "$at" 2> "$state/mount.said" &&
    ! limited mount -i -t nfs4 -o "$plain,addr=$server,clientaddr=$client" "$server:$path" "$at" 2>> "$state/mount.said"; then
    # Without the volume the tenant would write into an empty folder.
    rmdir "$at" 2> /dev/null && rm -f "$record"
    fail "$(tail -n 3 "$state/mount.said")"
  fi
  rm -f "$state/mount.said"
  is_mounted "$at" || fail "$at is not mounted"
fi
# With root squash only the file server can change the owner.
chown "$uid" "$at" 2> /dev/null || printf 'unowned %s\n' "$at"
exit 0
`,
)

/** Unmounts a volume after killing the processes that use it. */
export const unmountScript = constantScript(
  'unmount',
  ['volume'],
  String.raw`
exclusive
record=$state/disks/$volume
[ -s "$record" ] || exit 0
at=$(cat "$record")
holders() {
  for one in /proc/[0-9]*; do
    ls -l "$one/cwd" "$one/root" "$one/exe" "$one/fd" 2> /dev/null | grep -qE -- "-> $at(/|$)" && echo "$one" | sed 's#/proc/##'
  done
}
if is_mounted "$at"; then
  limited umount "$at" 2> /dev/null || {
    for pid in $(holders); do [ "$pid" = 1 ] || [ "$pid" = $$ ] || kill -9 "$pid" 2> /dev/null; done
    limited umount "$at" 2> /dev/null || limited umount -f "$at" 2> /dev/null || umount -l "$at" || fail "cannot unmount $at"
  }
fi
! is_mounted "$at" || fail "$at is still mounted"
rmdir "$at" 2> /dev/null
rm -f "$record" || fail 'cannot remove the record of the mount'
`,
)
