/** `berth files`: the input and the results of batches. */
import { systemClock } from '../../base/instant.ts'
import { fileSize } from '../../view/number.ts'
import { age, timeOfSeconds, utcTime } from '../../view/time.ts'
import { parseWhole } from '../kit/flag.ts'
import { outputOptions, type OutputOptions } from '../kit/output-file.ts'
import { act, custom, list, show } from '../kit/row.ts'
import { bold } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'
import { downloadFile, uploadFile } from './stored-file.ts'

const MAX_DAYS = 30
const DAY_SECONDS = 86_400
const ID = { '<id>': 'id, such as file_…, as shown by berth files ls' }
const EXAMPLE_ID = 'file_01kacq1v8m6yq3w5r7t9'

export const rows: readonly Row[] = [
  custom<{ days?: number }>('files upload', 'upload a file', {
    operation: 'uploadFile',
    args: { '<file>': 'file to upload' },
    options: {
      '--days <n>': {
        help: `delete it after so many days (default: ${MAX_DAYS})`,
        parse: parseWhole(1, MAX_DAYS),
      },
    },
    run: async ({ client, screen, options, args }) => {
      const { days } = options
      const file = await uploadFile(client, String(args[0]), days === undefined ? undefined : days * DAY_SECONDS)
      screen.show(file, () => [
        `Uploaded ${file.filename} (${fileSize(file.bytes)}) as ${file.id}.`,
        `It is deleted after ${utcTime(timeOfSeconds(file.expires_at))}.`,
      ])
    },
    examples: ['berth files upload questions.jsonl', 'berth files upload questions.jsonl --days 2'],
  }),
  list('files ls', 'listFiles', 'list files, newest first', {
    noun: 'file',
    flags: { order: false, purpose: 'only files with this purpose' },
    columns: [
      'id',
      'filename:NAME',
      'purpose',
      {
        SIZE: ({ bytes }) => fileSize(bytes),
        AGE: ({ created_at: at }) => age(timeOfSeconds(at), systemClock.now()),
        'DELETED AFTER': ({ expires_at: at }) => utcTime(timeOfSeconds(at)),
      },
    ],
    empty: 'To upload one: berth files upload FILE',
    hint: 'To download one: berth files download ID -o FILE',
  }),
  show('files show', 'getFile', 'show a file', {
    alias: 'get',
    args: ID,
    facts: [
      { File: ({ id }) => bold(id) },
      'filename:Name',
      'purpose',
      {
        Size: ({ bytes }) => fileSize(bytes),
        Created: ({ created_at: at }) => utcTime(timeOfSeconds(at)),
        'Deleted after': ({ expires_at: at }) => utcTime(timeOfSeconds(at)),
      },
    ],
    examples: [`berth files show ${EXAMPLE_ID}`],
  }),
  custom<OutputOptions>('files download', 'download a file', {
    operation: 'downloadFile',
    args: ID,
    options: outputOptions('path of the'),
    run: async ({ session, screen, options, args }) => {
      const id = String(args[0])
      await downloadFile(session, id, options)
      screen.show({ id, file: options.output }, () => [`Wrote ${options.output}.`])
    },
    examples: [`berth files download ${EXAMPLE_ID} -o answers.jsonl`],
  }),
  act('files rm', 'deleteFile', 'delete a file; asks first', {
    args: ID,
    confirm: ({ args }) => `Delete ${String(args[0])}?`,
    done: ({ id }) => `Deleted ${id}.`,
    examples: [`berth files rm ${EXAMPLE_ID}`],
  }),
]
