/** `berth batches`: files of requests that are answered on idle capacity, at the batch price. */
import { systemClock } from '../../base/instant.ts'
import { batchPaths } from '../../contract/batch-state.ts'
import {
  endedAt,
  linesDone,
  batchFaults,
  batchProgress,
  batchStatusLabels,
  batchWaitLabels,
  type Batch,
} from '../../view/batch.ts'
import { money } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import { age, timeOfSeconds, utcTime } from '../../view/time.ts'
import { act, custom, list, show } from '../kit/row.ts'
import { bold, toned, type Cell, type Content } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'
import { resultsRun, runBatch, type ResultOptions, type RunOptions } from './batch-run.ts'

const ID = { '<id>': 'id, such as batch_…, as shown by berth batches ls' }
const EXAMPLE = 'berth batches run questions.jsonl'
const EXAMPLE_ID = 'batch_01kacq1v8m6yq3w5r7t9'

const resultOptions = {
  '-f, --force': 'replace the files if they exist',
} as const

export const rows: readonly Row[] = [
  custom<RunOptions>('batches run', 'run a file of requests, and download their answers', {
    operation: 'createBatch',
    args: { '<file>': 'requests, one per line: {"custom_id", "method": "POST", "url", "body"}' },
    options: {
      '--endpoint <path>': { help: 'the url of every line (default: that of the first)', choices: batchPaths },
      '-o, --output <file>': 'file for the answers (default: FILE.output.jsonl)',
      ...resultOptions,
      '--no-wait': 'print the id at once; berth batches results gets the answers later',
    },
    run: runBatch,
    notes:
      'Answers take up to a day: they use capacity that nobody else needs, at the batch\n' +
      'price of the model. Lines that fail go to a second file, FILE.errors.jsonl, and\n' +
      'the exit code is 1. Ctrl-C stops waiting; the batch goes on.',
    examples: [EXAMPLE, `${EXAMPLE} -o answers.jsonl`, `${EXAMPLE} --no-wait`],
  }),
  custom<ResultOptions>('batches results', 'wait for a batch, and download its answers', {
    args: ID,
    who: 'customer',
    options: { '-o, --output <file>': 'file for the answers (default: ID.output.jsonl)', ...resultOptions },
    run: resultsRun,
    examples: [`berth batches results ${EXAMPLE_ID}`, `berth batches results ${EXAMPLE_ID} -o answers.jsonl`],
  }),
  list('batches ls', 'listBatches', 'list batches, newest first', {
    noun: 'batch',
    rowsShown: 20,
    columns: [
      'id',
      {
        AGE: ({ created_at: at }) => age(timeOfSeconds(at), systemClock.now()),
        STATUS: statusCell,
        PROGRESS: linesDone,
        FAILED: ({ request_counts: { failed } }) => (failed === 0 ? '' : number(failed)),
        COST: ({ cost_usd: usd }) => money(usd),
      },
    ],
    wide: ['model', 'endpoint', 'input_file_id:INPUT', 'output_file_id:OUTPUT', 'error_file_id:ERRORS'],
    empty: `To run one: ${EXAMPLE}`,
    hint: 'To see one: berth batches show ID',
  }),
  show('batches show', 'getBatch', 'show a batch with its progress, cost and files', {
    alias: 'get',
    args: ID,
    facts: [
      {
        Batch: ({ id }) => bold(id),
        Status: statusCell,
        Progress: (batch) => batchProgress(batch) || undefined,
        'Waits for': ({ waiting_for: what }) => what && batchWaitLabels[what],
        Cost: ({ cost_usd: usd }) => money(usd),
      },
      'model',
      'endpoint',
      'input_file_id:Input',
      'output_file_id:Answers',
      'error_file_id:Errors',
      {
        Created: ({ created_at: at }) => utcTime(timeOfSeconds(at)),
        Ended: (batch) => utcTime(timeOfSeconds(endedAt(batch))) || undefined,
        'Time limit': (batch) => (endedAt(batch) === null ? utcTime(timeOfSeconds(batch.expires_at)) : undefined),
      },
    ],
    content: (batch): Content[] => [
      ...(batch.errors === null ? [] : ['', ...batchFaults(batch)]),
      ...(batch.output_file_id === null && batch.error_file_id === null
        ? []
        : ['', `To download the answers: berth batches results ${batch.id}`]),
    ],
    examples: [`berth batches show ${EXAMPLE_ID}`, `berth batches show ${EXAMPLE_ID} --watch`],
  }),
  act('batches cancel', 'cancelBatch', 'cancel a batch; its answers so far are kept', {
    args: ID,
    done: ({ id }) => [`${id} is being cancelled.`, `To get its answers so far: berth batches results ${id}`],
    examples: [`berth batches cancel ${EXAMPLE_ID}`],
  }),
]

function statusCell({ status }: Batch): Cell {
  const [label, tone] = batchStatusLabels[status]
  return toned(tone, label)
}
