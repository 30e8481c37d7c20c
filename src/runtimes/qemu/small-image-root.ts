/**
 * The shell scripts of the small image, in the order in which they run. The kernel runs `/init` from memory; it loads
 * modules, turns the disk with the serial `berth-root` into the root (an empty disk is formatted and filled first), and
 * hands over to busybox' init, which runs `/etc/rc` and keeps the SSH server running. Without such a disk everything
 * stays in memory.
 *
 * A disk that is neither empty nor mountable is never formatted: the machine stops with a message.
 */
import { MOUNT_FILE } from './mount-script.ts'
import { PROFILE, RUN_ON_START, SETUP_FILE, USER_DATA } from '../setup-script.ts'

export const ROOT_SERIAL = 'berth-root'
/** Printed on the console when SSH is ready. */
const READY_LINE = 'berth: ready'

const init = `#!/bin/sh
export PATH=/sbin:/bin:/usr/sbin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "$module" || echo "berth: $module could not be loaded"
done < /lib/modules/boot-order

find_disk() {
  for one in /sys/block/vd*; do
    if [ "$(cat "$one/serial" 2>/dev/null)" = ${ROOT_SERIAL} ]; then
      echo "/dev/\${one##*/}"
      return
    fi
  done
}
disk=$(find_disk)
tries=0
while [ -z "$disk" ] && [ $tries -lt 40 ] && grep -q berth.disk /proc/cmdline; do
  usleep 50000
  tries=$((tries + 1))
  disk=$(find_disk)
done
[ -n "$disk" ] || exec /sbin/init

mkdir -p /new
if [ "$(head -c 65536 "$disk" | tr -d '\\000' | wc -c)" = 0 ]; then
  /sbin/mke2fs -q -F -t ext4 -L ${ROOT_SERIAL} -E lazy_itable_init=1,lazy_journal_init=1,nodiscard "$disk"
fi
if ! mount -t ext4 -o noatime "$disk" /new; then
  echo "berth: the root disk is not empty and cannot be mounted; it is left as it is"
  while :; do sleep 3600; done
fi
if [ ! -e /new/var/lib/berth/filled ]; then
  for one in bin sbin lib lib64 usr etc root var; do
    [ -e "/$one" ] && cp -a "/$one" /new/
  done
  mkdir -p /new/proc /new/sys /new/dev /new/tmp /new/run /new/mnt /new/home
  sync
  touch /new/var/lib/berth/filled
fi
release=$(uname -r)
if [ ! -e "/new/lib/modules/$release/modules.dep" ]; then
  rm -rf /new/lib/modules
  cp -a /lib/modules /new/lib/
fi
mount --move /proc /new/proc
mount --move /sys /new/sys
mount --move /dev /new/dev
exec switch_root /new /sbin/init
`

const inittab = `::sysinit:/etc/rc
::respawn:/etc/rc.ssh
::once:/etc/rc.ready
::once:/etc/rc.power
::ctrlaltdel:/sbin/reboot
::shutdown:/bin/sync
::shutdown:/bin/umount -a -r
`

const rc = `#!/bin/sh
export PATH=/sbin:/bin:/usr/sbin:/usr/bin
mkdir -p /dev/pts /dev/shm /run /tmp /mnt /var/lib/berth /etc/dropbear /root/.ssh
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
chmod 700 /root /root/.ssh
ip link set lo up

# The seed is applied once per instance, so that later changes of the owner stay.
for one in /sys/block/vd* /sys/block/sr*; do
  [ -e "$one" ] || continue
  mkdir -p /run/seed
  mount -t iso9660 -o ro "/dev/\${one##*/}" /run/seed 2>/dev/null || continue
  if [ -f /run/seed/meta-data ]; then
    instance=$(sed -n 's/^instance-id: *"\\(.*\\)"$/\\1/p' /run/seed/meta-data)
    if [ "$instance" != "$(cat /var/lib/berth/instance 2>/dev/null)" ]; then
      sed -n 's/^local-hostname: *"\\(.*\\)"$/\\1/p' /run/seed/meta-data > /etc/hostname
      sed -n 's/^berth-gpus: *"\\(.*\\)"$/\\1/p' /run/seed/meta-data > /etc/berth-gpus
      sed -n 's/^ *- "\\([a-z0-9@.-]* AAAA[A-Za-z0-9+/=]*\\)"$/\\1/p' /run/seed/user-data > /root/.ssh/authorized_keys
      chmod 600 /root/.ssh/authorized_keys
      printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$(cat /etc/hostname)" > /etc/hosts
      echo "$instance" > /var/lib/berth/instance
    fi
    [ ! -f /run/seed/${MOUNT_FILE} ] || sh /run/seed/${MOUNT_FILE} > /dev/console 2>&1
    [ ! -f /run/seed/${SETUP_FILE} ] || sh /run/seed/${SETUP_FILE}
  fi
  umount /run/seed
done
[ -s /etc/hostname ] && hostname -F /etc/hostname

network=$(sed -n 's/.*berth\\.net=\\([^ ]*\\).*/\\1/p' /proc/cmdline)
if [ -e /sys/class/net/eth0 ]; then
  ip link set eth0 up
  if [ -n "$network" ]; then
    IFS=, read -r address gateway resolver <<END
$network
END
    ip addr add "$address" dev eth0
    [ -z "$gateway" ] || ip route add default via "$gateway"
    [ -z "$resolver" ] || echo "nameserver $resolver" > /etc/resolv.conf
  else
    udhcpc -i eth0 -b -t 10 -T 1 -A 2 -s /etc/udhcpc.script > /dev/null 2>&1
  fi
fi

[ -s /etc/dropbear/ed25519 ] || dropbearkey -t ed25519 -f /etc/dropbear/ed25519 > /dev/null 2>&1
sync
`

const rcReady = `#!/bin/sh
until grep -qi ':0016 .* 0a ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; do usleep 20000; done
echo "${READY_LINE} after $(cut -d' ' -f1 /proc/uptime) s as $(hostname)" > /dev/console
[ ! -r ${PROFILE} ] || . ${PROFILE}
if [ -e ${USER_DATA} ] && [ ! -e ${USER_DATA}.done ]; then
  touch ${USER_DATA}.done
  case "$(head -c 2 ${USER_DATA})" in
    '#!') ${USER_DATA} ;;
    *) echo 'berth: this image has no cloud-init; the user data is in ${USER_DATA}' ;;
  esac > /dev/console 2>&1 < /dev/null
fi
[ ! -x ${RUN_ON_START} ] || ${RUN_ON_START}
`

/** Gives sessions the environment of the SSH server. */
const rcSsh = `#!/bin/sh
pass=
if [ -r ${PROFILE} ]; then
  . ${PROFILE}
  pass=-e
fi
exec /usr/sbin/dropbear -F -E -s $pass -r /etc/dropbear/ed25519
`

/**
 * Without it a machine ignores its power button, and a stop takes a minute until the machine is turned off by force.
 */
const rcPower = `#!/bin/sh
modprobe -q button
modprobe -q evdev
[ ! -e /dev/input/event0 ] || exec acpid -f -l /dev/null
`

/** Runs when the power button is pressed. */
const powerButton = `#!/bin/sh
/sbin/poweroff
`

const udhcpcScript = `#!/bin/sh
case "$1" in
  deconfig) ip addr flush dev "$interface" ;;
  bound | renew)
    ip addr flush dev "$interface"
    ip addr add "$ip/\${mask:-24}" dev "$interface"
    for one in $router; do ip route add default via "$one" dev "$interface"; done
    : > /etc/resolv.conf
    for one in $dns; do echo "nameserver $one" >> /etc/resolv.conf; done
    ;;
esac
`

/** The kernel needs addresses, which mount.nfs usually adds. */
const mountNfs4 = `#!/bin/sh
source=$1 target=$2 options=rw
shift 2
while [ $# -gt 0 ]; do
  case "$1" in
    -o) options=$options,$2; shift ;;
  esac
  shift
done
server=\${source%%:*}
case "$server" in
  *[!0-9.]*) address=$(nslookup "$server" 2>/dev/null | sed -n 's/^Address[ 0-9]*: *\\([0-9.]*\\)$/\\1/p' | tail -n 1) ;;
  *) address=$server ;;
esac
[ -n "$address" ] || { echo "mount.nfs4: $server has no address" >&2; exit 32; }
own=$(ip route get "$address" | sed -n 's/.* src \\([0-9.]*\\).*/\\1/p')
exec /bin/busybox mount -i -t nfs4 -o "$options,addr=$address,clientaddr=\${own:-0.0.0.0}" "$source" "$target"
`

/** Minimal useradd, adduser, userdel and deluser, which this busybox lacks. */
const account = `#!/bin/sh
shell=/bin/sh home= number= remove= name=
called=\${0##*/}
while [ $# -gt 0 ]; do
  case "$1" in
    -s | --shell) shell=$2; shift ;;
    -d | --home | --home-dir | -h) home=$2; shift ;;
    -u | --uid) number=$2; shift ;;
    -G | --groups | -g | --gid | -c | --comment | --gecos) shift ;;
    -r | --remove | --remove-home) remove=yes ;;
    -*) ;;
    *) name=$1 ;;
  esac
  shift
done
case "$name" in
  '' | *[!a-z0-9_-]*) echo "$called: which user?" >&2; exit 2 ;;
esac
case "$called" in
  useradd | adduser)
    grep -q "^$name:" /etc/passwd && { echo "$called: user $name exists" >&2; exit 9; }
    home=\${home:-/home/$name}
    if [ -z "$number" ]; then
      number=1000
      while grep -q "^[^:]*:[^:]*:$number:" /etc/passwd; do number=$((number + 1)); done
    fi
    echo "$name:x:$number:$number::$home:$shell" >> /etc/passwd
    echo "$name:*:19000:0:99999:7:::" >> /etc/shadow
    echo "$name:x:$number:" >> /etc/group
    mkdir -p "$home" && chown "$number:$number" "$home" && chmod 700 "$home"
    ;;
  userdel | deluser)
    home=$(sed -n "s/^$name:[^:]*:[^:]*:[^:]*:[^:]*:\\([^:]*\\):.*/\\1/p" /etc/passwd)
    [ -n "$home" ] || { echo "$called: user $name does not exist" >&2; exit 6; }
    for file in passwd shadow group; do sed -i "/^$name:/d" "/etc/$file"; done
    [ -z "$remove" ] || rm -rf "$home"
    ;;
esac
`

export interface RootFile {
  readonly path: string
  readonly text: string
  readonly mode: number
}

export const rootFiles: readonly RootFile[] = [
  { path: 'init', text: init, mode: 0o755 },
  { path: 'etc/inittab', text: inittab, mode: 0o644 },
  { path: 'etc/rc', text: rc, mode: 0o755 },
  { path: 'etc/rc.ready', text: rcReady, mode: 0o755 },
  { path: 'etc/rc.ssh', text: rcSsh, mode: 0o755 },
  { path: 'etc/rc.power', text: rcPower, mode: 0o755 },
  { path: 'etc/acpi/PWRF/00000080', text: powerButton, mode: 0o755 },
  { path: 'etc/udhcpc.script', text: udhcpcScript, mode: 0o755 },
  { path: 'etc/passwd', text: 'root:x:0:0:root:/root:/bin/sh\n', mode: 0o644 },
  { path: 'etc/shadow', text: 'root:*:19000:0:99999:7:::\n', mode: 0o600 },
  { path: 'etc/group', text: 'root:x:0:\ntty:x:5:\n', mode: 0o644 },
  { path: 'etc/shells', text: '/bin/sh\n', mode: 0o644 },
  {
    path: 'etc/profile',
    text: `export PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin\n[ ! -r ${PROFILE} ] || . ${PROFILE}\n`,
    mode: 0o644,
  },
  { path: 'sbin/mount.nfs4', text: mountNfs4, mode: 0o755 },
  ...['useradd', 'adduser', 'userdel', 'deluser'].map((name) => ({
    path: `usr/sbin/${name}`,
    text: account,
    mode: 0o755,
  })),
]

/** Folders that exist before any mount. */
export const rootFolders = [
  [
    'bin',
    'sbin',
    'lib',
    'lib64',
    'etc/dropbear',
    'etc/acpi/PWRF',
    'usr/bin',
    'usr/sbin',
    'root/.ssh',
    'var/lib/berth',
    'var/run',
  ],
  ['proc', 'sys', 'dev', 'tmp', 'run', 'mnt', 'home'],
].flat()

/** Loaded at boot. */
export const bootModules = ['virtio_pci', 'virtio_blk', 'virtio_net', 'virtio_scsi', 'sd_mod', 'virtio-rng', 'isofs']
/** Loaded on demand. */
export const spareModules = ['sr_mod', 'nfsv4', 'qemu_fw_cfg', 'button', 'evdev']
