/** Distinguishes a process from a later one with the same pid. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * A text that is constant while the process runs and differs for a later process; undefined: no such process. A zombie
 * counts as ended: it has no open files, and in a container without an init it would stay forever.
 */
export function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  if (process.platform !== 'linux') {
    const [state = '', ...start] = askPs(pid, 'state=,lstart=').split(/\s+/)
    return state === '' || state.startsWith('Z') ? undefined : start.join(' ')
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name, in brackets, can contain spaces and brackets. After it, field 3 is the state and field 22 the start time.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined
    // Start times count from boot, so after a reboot the same pid can start at the same tick.
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${fields[19] ?? ''}`
  } catch {
    return undefined
  }
}

/** Columns of `ps` for one process; '' when there is no such process. */
export function askPs(pid: number, columns: string): string {
  try {
    const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' }
    const args = ['-ww', '-o', columns, '-p', String(pid)]
    return execFileSync('ps', args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return ''
  }
}
