/** The fields of a job, for an order and for a schedule. */
import { parseImage } from '../../../src/view/job.ts'
import type { Entries } from '../../form/entry.ts'

const MACHINE = 'Only this machine. The only way to a simulated one.'

/** The command is typed as shell text, so the image must have a shell. Most have one. */
const shellCommand = (text: string): readonly string[] => ['/bin/sh', '-c', text]

export const jobFields: Entries<'createJob'> = [
  ['name', { hint: 'Your own name for it', placeholder: 'train' }],
  ['image', { label: 'Image', hint: 'Docker image, as name:tag', placeholder: 'python:3.13', read: parseImage }],
  [
    'command',
    { as: 'block', label: 'Command', hint: 'Runs in /bin/sh. Default: the command of the image', read: shellCommand },
  ],
  {
    group: 'GPUs',
    fields: [
      ['gpus.model', { label: 'Model', placeholder: 'any, or a part of a name' }],
      ['gpus.minMemoryGb', { label: 'Memory of each (GB)', placeholder: 'any' }],
      ['gpus.count', { label: 'GPUs' }],
      ['gpus.machineId', { label: 'Machine', hint: MACHINE, placeholder: 'the cheapest' }],
    ],
  },
  {
    group: 'Limits',
    fields: [
      ['timeoutSeconds', { label: 'Longest running time (seconds)' }],
      ['maxCostUsd', { label: 'Maximum cost (USD)', placeholder: 'none' }],
      ['maxPricePerHourUsd', { label: 'Maximum price per hour (USD)', placeholder: 'none' }],
      'retries',
    ],
  },
  {
    group: 'Input and array',
    isFolded: true,
    fields: [
      ['input', { as: 'block', label: 'Input (JSON)', hint: 'In the machine as /berth/input.json', read: readJson }],
      [
        'array.count',
        { label: 'Tasks', hint: 'Runs the command once for each index, in BERTH_JOB_INDEX', placeholder: '1' },
      ],
      ['array.parallel', { label: 'Tasks at a time', placeholder: 'all' }],
      'priority',
    ],
  },
]

export function isJson(text: string): boolean {
  return text.trim() === '' || readJson(text) !== undefined
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
