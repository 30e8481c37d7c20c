/** Tells a process from a later one with the same pid. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * The same text for as long as the process runs, and another one for a later process; undefined when no such process
 * runs. A zombie counts as ended: it holds no file, and in a container without an init it would stay for ever.
 */
export function processStart(pid: number): string | undefined {
  if (!Number.isSafeInteger(pid) || pid <= 0) return undefined
  if (process.platform !== 'linux') {
    const [state = '', ...start] = askPs(pid, 'state=,lstart=').split(/\s+/)
    return state === '' || state.startsWith('Z') ? undefined : start.join(' ')
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name, in brackets, may itself hold spaces and brackets. After it: state is field 3, the start time field 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined
    // Start times count from boot, and after a reboot the same pid may well start at the same tick.
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
