/** Downloads of what jobs have written: the archive of a task, or one file of it. */
import { Readable } from 'node:stream'
import type { Actor, App } from '../../app/app.ts'
import { readFile } from '../../app/file/file.ts'
import { findOwnJob } from '../../app/job/job.ts'
import { OUTPUT_FOLDER } from '../../app/job/output.ts'
import { readTarFile } from '../../artifacts/model/tar-entry.ts'
import type { Api } from '../../contract/api.ts'
import type { QueryOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { findFile, type StoredFile } from '../../store/file/file.ts'
import { listAttempts, type AttemptRow } from '../../store/job/attempt.ts'
import type { Job } from '../../store/job/job.ts'
import type { Download } from '../http/handler.ts'

type OutputQuery = QueryOf<Api['downloadJobOutput']>

export async function openJobOutput(
  app: App,
  actor: Pick<Actor, 'accountId'>,
  id: string,
  query: OutputQuery,
): Promise<Result<Download>> {
  const job = await findOwnJob(app.database.db, actor, id)
  return job.ok ? openOutput(app, job.value, query) : job
}

/** The archive of a task, or one file of it. */
async function openOutput(app: App, job: Job, query: OutputQuery): Promise<Result<Download>> {
  const attempts = await listAttempts(app.database.db, job.id, [query.index])
  const attempt = attempts.findLast(
    ({ number, file_id }) => file_id !== null && (query.attempt === undefined || number === query.attempt),
  )
  const file = await fileOf(app, job, attempt)
  if (file === undefined) return fail('job_output_not_found')
  if (query.path === undefined)
    return ok({ name: file.name, bytes: Number(file.size_bytes), content: readFile(app, file) })
  const listed = attempt?.output?.files.find(({ path }) => path === query.path)
  if (listed === undefined) return fail('job_output_not_found')
  const isWanted = (name: string): boolean => name.replace(OUTPUT_FOLDER, '') === listed.path
  const content = readTarFile(Readable.from(readFile(app, file), { objectMode: false }), isWanted)
  return ok({ name: listed.path.slice(listed.path.lastIndexOf('/') + 1), bytes: listed.bytes, content })
}

async function fileOf(app: App, job: Job, attempt: AttemptRow | undefined): Promise<StoredFile | undefined> {
  const id = attempt?.file_id ?? null
  return id === null ? undefined : findFile(app.database.db, job.account_id, id)
}
