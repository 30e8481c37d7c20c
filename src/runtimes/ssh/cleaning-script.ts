/**
 * Scripts that remove a tenant. All can be repeated. None follows symlinks or crosses file systems while it deletes: a
 * mount below could be a customer's volume.
 */
import { constantScript } from './script.ts'

/**
 * Locks the tenant out: keys, password, sudo, then all processes until there are none. It works on a read-only disk too:
 * there an empty mount hides the home until the next boot, and drivers/metal/keep.ts repeats it on hosts that were not cleaned.
 */
const lockOut = String.raw`
home=/home/$user
has_keys() { [ -e "$home/.ssh/authorized_keys" ] || [ -e "$home/.ssh/authorized_keys2" ]; }
processes() {
  grep -lE "^Uid:.*[[:space:]]$uid([[:space:]]|$)" /proc/[0-9]*/status 2> /dev/null |
    xargs -r grep -LE '^State:[[:space:]]*Z' 2> /dev/null | sed 's#/proc/##; s#/status##'
}
shut_out() {
  uid=$(field uid)
  [ -n "$uid" ] || uid=$(uid_of "$user")
  if [ -L "$home/.ssh" ]; then rm -f "$home/.ssh"; fi 2> /dev/null
  if [ -d "$home/.ssh" ]; then find "$home/.ssh" -xdev ! -type d -exec rm -f -- {} + 2> /dev/null; fi
  rm -f /etc/sudoers.d/berth-tenant 2> /dev/null
  # Locked, and expired since 1970.
  sed -i "s/^$user:[^:]*:\([^:]*:[^:]*:[^:]*:[^:]*:[^:]*\):[^:]*:/$user:!:\1:1:/" /etc/shadow 2> /dev/null
  if has_keys; then mount -t tmpfs -o ro,mode=000,size=4k tmpfs "$home" 2> /dev/null; fi
  ! has_keys || fail 'cannot remove the keys of the tenant, who can still log in'
  [ -n "$uid" ] || return 0
  [ "$uid" -ge 1000 ] || fail "$user has the uid $uid, which is a system account"
  round=0
  while pids=$(processes); [ -n "$pids" ]; do
    round=$((round + 1))
    [ "$round" -le 40 ] || fail "processes that cannot be killed: $(echo $pids | head -c 100)"
    # Stopped first, so that a fork bomb cannot start processes faster than they are killed.
    kill -STOP $pids 2> /dev/null
    kill -KILL $pids 2> /dev/null
    [ "$round" -le 20 ] || sleep 1
  done
}
`

/**
 * Only locks the tenant out, on a host in an unknown state. Without `always`, it does so only if a tenant of ours was
 * there: on a host that was never rented, a user of that name belongs to the operator.
 */
export const lockOutScript = constantScript(
  'lock the tenant out',
  ['user', 'always'],
  String.raw`
[ "$always" = yes ] || [ -e "$marker" ] || exit 0
exclusive
${lockOut}
shut_out
`,
)

/** Locks the tenant out, then records which rental this cleaning is for. */
export const lockScript = constantScript(
  'lock',
  ['user', 'id'],
  String.raw`
exclusive
${lockOut}
shut_out
mkdir -p "$state" || fail "cannot create $state"
[ -n "$uid" ] || exit 0
[ -e "$marker" ] || printf 'tag berth-cleaning\nid %s\nuser %s\nphase taken\n' "$id" "$user" > "$marker" || fail "cannot write $marker"
[ -n "$(field uid)" ] || note uid "$uid"
rm -f /etc/sudoers.d/berth-tenant || fail 'cannot remove sudo'
`,
)

/** Unmounts our volumes and the tenant's own mounts. */
export const unmountAllScript = constantScript(
  'unmount everything',
  ['user'],
  String.raw`
exclusive
uid=$(field uid)
drop() {
  limited umount "$1" 2> /dev/null || limited umount -f "$1" 2> /dev/null || umount -l "$1" || fail "cannot unmount $1"
}
for record in "$state"/disks/*; do
  [ -s "$record" ] || continue
  at=$(cat "$record")
  tries=0
  while is_mounted "$at"; do
    tries=$((tries + 1))
    [ "$tries" -le 5 ] || fail "$at is still mounted"
    drop "$at"
  done
  rmdir "$at" 2> /dev/null
  rm -f "$record" || fail 'cannot remove the record of the mount'
done
while read -r device at type options rest; do
  case $at in "/home/$user"|"/home/$user/"*) drop "$(printf '%b' "$at")"; continue ;; esac
  case $options in *user_id=$uid,*|*user_id=$uid) [ -z "$uid" ] || drop "$(printf '%b' "$at")" ;; esac
done < /proc/mounts
exit 0
`,
)

/** Removes the tenant's files and user. */
export const removeScript = constantScript(
  'remove',
  ['user', 'scratch'],
  String.raw`
exclusive
uid=$(field uid)
[ -n "$uid" ] || uid=$(uid_of "$user")
# The deepest first. Not by -depth: with it, the find of busybox goes down into other file systems in spite of -xdev.
remove_folders() { sort -rz | xargs -0 -r rmdir --; }
empty() {
  [ -d "$1" ] && [ ! -L "$1" ] || return 0
  find "$1" -xdev -mindepth 1 ! -type d -exec rm -f -- {} +
  find "$1" -xdev -mindepth 1 -type d -print0 | remove_folders
}
home=/home/$user
empty "$home" 2> /dev/null
if [ -L "$home" ] || [ -f "$home" ]; then rm -f "$home"; elif [ -d "$home" ]; then rmdir "$home" || fail "cannot remove $home"; fi
rm -f "/var/spool/cron/crontabs/$user" "/var/spool/cron/$user" "/var/mail/$user" "/var/spool/mail/$user" \
  "/var/lib/systemd/linger/$user" /etc/sudoers.d/berth-tenant || fail 'cannot remove crontab, mail or sudo'
for one in /tmp /var/tmp /dev/shm; do empty "$one" 2> /dev/null; done
printf '%s\n' "$scratch" | while IFS= read -r one; do
  [ -n "$one" ] || continue
  empty "$one" 2> /dev/null
  rest=$(find "$one" -xdev -mindepth 1 2>&1 | head -n 3)
  [ -z "$rest" ] || fail "$one is not empty: $rest"
done || exit 1
if [ -n "$uid" ]; then
  local_mounts | while IFS= read -r at; do
    find "$at" -xdev -user "$uid" ! -type d -exec rm -f -- {} + 2> /dev/null
    find "$at" -xdev -user "$uid" -type d -print0 2> /dev/null | remove_folders 2> /dev/null
  done
  for kind in shm sem msg; do
    column=8
    [ "$kind" != sem ] || column=5
    awk -v uid="$uid" -v at="$column" 'NR > 1 && $at == uid { print $2 }' "/proc/sysvipc/$kind" 2> /dev/null | while read -r object; do
      case $kind in shm) ipcrm -m "$object" ;; sem) ipcrm -s "$object" ;; msg) ipcrm -q "$object" ;; esac 2> /dev/null
    done
  done
fi
if grep -q '^# berth begin$' /etc/hosts; then
  without_block > "$state/hosts.new" && cat "$state/hosts.new" > /etc/hosts && rm -f "$state/hosts.new" ||
    fail 'cannot remove the entries in /etc/hosts'
fi
if is_user "$user"; then
  if command -v userdel > /dev/null; then userdel -f "$user" 2> /dev/null
  elif command -v deluser > /dev/null; then deluser "$user" 2> /dev/null; fi
fi
for one in passwd shadow group gshadow subuid subgid; do
  if grep -q "^$user:" "/etc/$one" 2> /dev/null; then sed -i "/^$user:/d" "/etc/$one" || fail "$user is still in /etc/$one"; fi
done
exit 0
`,
)

/** A new boot id proves that no process survived. */
export const rebootScript = constantScript(
  'reboot',
  ['id'],
  String.raw`
exclusive
[ -e "$marker" ] || printf 'tag berth-cleaning\nid %s\n' "$id" > "$marker" || fail "cannot write $marker"
note rebootfrom "$(boot_id)"
note phase rebooting
settle
rm -rf "$held"
reboot || shutdown -r now || fail 'cannot reboot'
`,
)

/** Prints leftovers of a tenant, one per line. */
export const leftoverScript = constantScript(
  'look for leftovers',
  ['user', 'uid', 'scratch'],
  String.raw`
left() { printf 'left %s\n' "$1"; }
if is_user "$user"; then left "the user $user"; fi
[ -n "$uid" ] || uid=$(uid_of "$user")
[ ! -e "/home/$user" ] || left "/home/$user"
[ ! -e /etc/sudoers.d/berth-tenant ] || left '/etc/sudoers.d/berth-tenant'
[ ! -e "/var/spool/cron/crontabs/$user" ] || left 'a crontab'
! grep -q '^# berth begin$' /etc/hosts || left 'entries in /etc/hosts'
for one in "$state"/disks/*; do [ ! -f "$one" ] || left "the volume $(basename "$one")"; done
printf '%s\n' "$scratch" | while IFS= read -r one; do
  [ -n "$one" ] || continue
  if [ ! -d "$one" ] || [ -L "$one" ]; then left "$one is not a folder"; continue; fi
  find "$one" -mindepth 1 2>&1 | head -n 3 | while IFS= read -r name; do left "$name"; done
done
[ -n "$uid" ] || exit 0
pids=$(grep -lE "^Uid:.*[[:space:]]$uid([[:space:]]|$)" /proc/[0-9]*/status 2> /dev/null)
[ -z "$pids" ] || left "processes of uid $uid"
local_mounts | while IFS= read -r at; do
  find "$at" -xdev -user "$uid" 2>&1 | grep -v 'No such file' | head -n 3 | while IFS= read -r name; do left "$name"; done
done
exit 0
`,
)

/** The last step: frees the host. */
export const releaseScript = constantScript(
  'release',
  [],
  String.raw`
exclusive
rm -rf "$state/disks" "$state/hosts.new" "$state/mount.said" && rm -f "$marker.new" "$marker" && [ ! -e "$marker" ] ||
  fail "cannot remove $marker"
settle
`,
)
