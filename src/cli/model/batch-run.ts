/** Runs a file of requests as a batch, and waits for the files of results. Whoever stops waiting finds the batch by its id. */
import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { batchPaths, type BatchPath } from '../../contract/batch-state.ts'
import { pause } from '../../client/pause.ts'
import {
  batchFaults,
  batchProgress,
  batchShare,
  batchStatusLabels,
  batchWaitLabels,
  endpointOfLine,
  hasBatchEnded,
  type Batch,
} from '../../view/batch.ts'
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { makeBar, noBar } from '../kit/bar.ts'
import { explain, withCheckHint } from '../kit/failure.ts'
import { checkOutput, type OutputOptions } from '../kit/output-file.ts'
import { CliError, exitCodes, type ExitCode } from '../kit/shell.ts'
import type { Call } from '../kit/row-type.ts'
import { cannotRead, downloadFile, uploadFile } from './stored-file.ts'

export interface ResultOptions {
  readonly output?: string
  readonly force?: true
}

export interface RunOptions extends ResultOptions {
  readonly endpoint?: BatchPath
  readonly wait: boolean
}

const POLL_MS = 1_000
/** Shells use the same code. */
const INTERRUPTED_CODE = 130
const FAULTS_SHOWN = 10

export async function runBatch(call: Call<RunOptions>): Promise<ExitCode> {
  const { client, session, screen, options } = call
  const input = String(call.args[0])
  const endpoint = options.endpoint ?? (await endpointOf(input))
  const files = resultFiles(options, input.replace(/\.jsonl$/, ''))
  if (options.wait) for (const file of Object.values(files)) checkOutput(file)
  const { id: inputFileId } = await uploadFile(client, input)
  const body = { input_file_id: inputFileId, endpoint, completion_window: '24h' } as const
  const creation = client.call('createBatch', { body, idempotencyKey: randomUUID() })
  const created = await withCheckHint(creation, session, 'To see whether it runs: berth batches ls')
  if (options.wait) return awaitResults(call, created, files)
  screen.show(created, () => [
    `Created ${created.id}.`,
    `To wait for its answers: berth batches results ${created.id} -o ${files.answers.output}`,
  ])
  return exitCodes.ok
}

export async function resultsRun(call: Call<ResultOptions>): Promise<ExitCode> {
  const { client, options } = call
  const id = String(call.args[0])
  const files = resultFiles(options, id)
  for (const file of Object.values(files)) checkOutput(file)
  return awaitResults(call, await client.call('getBatch', { params: { id } }), files)
}

interface ResultFiles {
  readonly answers: OutputOptions
  readonly errors: OutputOptions
}

/** `questions` → `questions.output.jsonl` and `questions.errors.jsonl`; `-o a.jsonl` → `a.jsonl` and `a.errors.jsonl` */
function resultFiles({ output, force }: ResultOptions, stem: string): ResultFiles {
  const replace = force === undefined ? {} : { force }
  const base = output === undefined ? stem : path.join(path.dirname(output), path.parse(output).name)
  return {
    answers: { output: output ?? `${stem}.output.jsonl`, ...replace },
    errors: { output: `${base}.errors.jsonl`, ...replace },
  }
}

async function awaitResults(call: Call, created: Batch, files: ResultFiles): Promise<ExitCode> {
  const { session, screen, shell } = call
  const again = `berth batches results ${created.id} -o ${files.answers.output}`
  const batch = await followToEnd(call, created, again)
  if (batch === undefined) {
    screen.show(created, () => [])
    shell.writeError(`${created.id} goes on. To wait for its answers: ${again}\n`)
    shell.writeError(`To cancel it: berth batches cancel ${created.id}\n`)
    return INTERRUPTED_CODE as ExitCode
  }
  const fileIds = { answers: batch.output_file_id, errors: batch.error_file_id }
  for (const kind of ['answers', 'errors'] as const) {
    const id = fileIds[kind]
    if (id !== null) await downloadFile(session, id, files[kind])
  }
  const pathOf = (kind: keyof ResultFiles): string | null => (fileIds[kind] === null ? null : files[kind].output)
  const { completed, total } = batch.request_counts
  screen.show({ ...batch, output_path: pathOf('answers'), error_path: pathOf('errors') }, () => [
    `${batch.id} ${batchStatusLabels[batch.status][0].toLowerCase()}: ${endText(batch)}`,
    fileIds.answers === null ? undefined : `Wrote ${count(completed, 'answer')} to ${files.answers.output}.`,
    fileIds.errors === null ? undefined : `Wrote ${count(total - completed, 'error')} to ${files.errors.output}.`,
    ...faultLines(batch),
  ])
  return batch.status === 'completed' && batch.request_counts.failed === 0 ? exitCodes.ok : exitCodes.failed
}

function endText(batch: Batch): string {
  const { total, completed } = batch.request_counts
  if (batch.errors !== null) return 'nothing was run or charged.'
  return `${completed} of ${count(total, 'line')} answered for ${money(batch.cost_usd)}.`
}

function faultLines(batch: Batch): string[] {
  const faults = batchFaults(batch)
  const more = faults.length - FAULTS_SHOWN
  return [...faults.slice(0, FAULTS_SHOWN), ...(more > 0 ? [`${more} more: berth batches show ${batch.id}`] : [])]
}

/** undefined: Ctrl-C. The second one leaves at once. */
async function followToEnd(call: Call, created: Batch, again: string): Promise<Batch | undefined> {
  const { client, session } = call
  const stop = new AbortController()
  const interrupt = (): void => {
    if (stop.signal.aborted) process.exit(INTERRUPTED_CODE)
    stop.abort()
  }
  const progress = makeProgress(call)
  process.on('SIGINT', interrupt)
  try {
    for (let batch = created; ;) {
      progress.show(batch)
      if (hasBatchEnded(batch)) return batch
      await pause(POLL_MS, stop.signal)
      batch = await client.call('getBatch', { params: { id: created.id }, signal: stop.signal })
    }
  } catch (error) {
    if (stop.signal.aborted) return undefined
    const explained = explain(error, session)
    if (!(explained instanceof CliError)) throw error
    const { exitCode, message, next, detail } = explained
    throw new CliError(exitCode, message, [...next, `The batch goes on. To wait for its answers: ${again}`], detail)
  } finally {
    process.off('SIGINT', interrupt)
    progress.end()
  }
}

/** A bar in a terminal, a line for each change elsewhere. */
function makeProgress({ session, shell, screen }: Call): { show: (batch: Batch) => void; end: () => void } {
  const bar = shell.color.error && !session.json ? makeBar((text) => shell.writeError(text)) : noBar
  let before = ''
  return {
    show: (batch) => {
      const [label] = batchStatusLabels[batch.status]
      const wait = batch.waiting_for === null ? '' : `, waits for ${batchWaitLabels[batch.waiting_for]}`
      if (bar !== noBar) return bar.draw(batchShare(batch), `${batchProgress(batch) || label}${wait}`)
      const text = `${batch.id} ${label}${wait}`
      if (text !== before && !hasBatchEnded(batch)) screen.remark(text)
      before = text
    },
    end: () => bar.clear(),
  }
}

/** The first line says it; the server compares the others with it. */
async function endpointOf(file: string): Promise<BatchPath> {
  const endpoint = endpointOfLine(await firstLineOf(file))
  if (endpoint !== undefined) return endpoint
  throw new CliError(exitCodes.usage, `The first line of ${file} has no "url" that a batch can have.`, [
    `A line has one of ${batchPaths.join(', ')}.`,
  ])
}

async function firstLineOf(file: string): Promise<string> {
  const content = createReadStream(file)
  try {
    for await (const line of createInterface({ input: content })) if (line.trim() !== '') return line
    return ''
  } catch {
    throw cannotRead(file)
  } finally {
    content.destroy()
  }
}
