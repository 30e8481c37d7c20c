/** The output of a job, as a folder of this machine. */
import fs from 'node:fs'
import path from 'node:path'
import { unpackFolder } from '../kit/local-tar.ts'
import { openDownload } from './download.ts'
import type { Session } from './session.ts'

export interface ResultOptions {
  readonly output: string
  readonly index: number
  readonly attempt?: number
}

/** Unpacks beside the folder first, since the archive has a folder of its own. */
export async function downloadOutput(
  session: Session,
  id: string,
  { output, index, attempt }: ResultOptions,
): Promise<void> {
  const query = new URLSearchParams({
    index: String(index),
    ...(attempt === undefined ? {} : { attempt: String(attempt) }),
  })
  const archive = await openDownload(session, `/v2/jobs/${id}/output?${query.toString()}`)
  fs.mkdirSync(output, { recursive: true })
  const folder = fs.mkdtempSync(path.join(output, '.berth-'))
  try {
    await unpackFolder(folder, archive)
    const inner = path.join(folder, 'output')
    for (const name of fs.readdirSync(inner))
      fs.cpSync(path.join(inner, name), path.join(output, name), { recursive: true })
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}
