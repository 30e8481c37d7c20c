/** Locks a folder to one process: two managers of the same daemon and mounts would undo each other. */
import fs from 'node:fs/promises'
import path from 'node:path'

/** Returns the unlock function. Ignores the lock of a dead process. */
export async function claimFolder(folder: string): Promise<() => Promise<void>> {
  const file = path.join(folder, 'owner')
  const thisProcess = `${process.pid} ${await startOf(process.pid)}`
  const owner = await fs.readFile(file, 'utf8').catch(() => '')
  const [pid = '', start = ''] = owner.split(' ')
  if (/^\d+$/.test(pid) && (await startOf(Number(pid))) === start) {
    throw new Error(`The storage folder ${folder} is in use by process ${pid}`)
  }
  await fs.rm(file, { force: true })
  // This fails for all but one of several concurrent callers.
  await fs.writeFile(file, thisProcess, { flag: 'wx', mode: 0o600 })
  return () => fs.rm(file, { force: true })
}

/** Returns the start time of a process, which makes its pid unique. undefined: no such process. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  // The name in parentheses may contain spaces; the start time is the 20th field after it.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}
