/** A folder belongs to one process at a time: two that look after the same daemon and mounts would undo each other. */
import fs from 'node:fs/promises'
import path from 'node:path'

/** Gives back how to let go of it. What a killed process has left does not count. */
export async function claimFolder(folder: string): Promise<() => Promise<void>> {
  const file = path.join(folder, 'owner')
  const mine = `${process.pid} ${await startOf(process.pid)}`
  const owner = await fs.readFile(file, 'utf8').catch(() => '')
  const [pid = '', start = ''] = owner.split(' ')
  if (/^\d+$/.test(pid) && (await startOf(Number(pid))) === start) {
    throw new Error(`The storage folder ${folder} is in use by process ${pid}`)
  }
  await fs.rm(file, { force: true })
  // Fails for all but one of those that come here at once.
  await fs.writeFile(file, mine, { flag: 'wx', mode: 0o600 })
  return () => fs.rm(file, { force: true })
}

/** When a process was started; with its number that names it for good. undefined: there is none. */
async function startOf(pid: number): Promise<string | undefined> {
  const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  // The name in parentheses may hold spaces; the start is the twentieth word after it.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
}
