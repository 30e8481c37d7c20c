/** `berth operator providers`: bills of other clouds, compared with the recorded costs. */
import type { Reply } from '../../client/client.ts'
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { describeGoods, billedText, billPeriod, recordedText } from '../../view/provider.ts'
import { readJsonFile } from '../kit/json-file.ts'
import { tableOf } from '../kit/record.ts'
import { act, list, show, withBody } from '../kit/row.ts'
import type { Call, Row } from '../kit/row-type.ts'
import { readTextFile } from '../kit/text-file.ts'

const name = 'name, as shown by berth operator providers ls'
const fileArgs = { '<name>': name, '<file>': 'JSON or CSV: the machine and the amount in USD of each line' }
const billArgs = { '<name>': name, '<id>': 'bill, as shown by berth operator providers bills ls' }
const periodFlags = { from: 'first day of the bill (UTC)', to: 'last day of the bill (UTC)' }
const notes =
  'The file has lines of machine,amount, with or without a head, or is JSON:\n{"lines": [{"machine": "i-1", "amountUsd": "12.50"}]}. Use - for standard input.\nWithout --from and --to, whole machines are compared.'

export const providerBillRows: readonly Row[] = [
  act('operator providers compare', 'compareProviderBill', "compare a cloud's invoice with the recorded costs", {
    args: fileArgs,
    only: ['from', 'to'],
    flags: periodFlags,
    prepare: async (call) => withBody(call.input, { lines: readLines(call) }),
    isWrong: ({ differencesTotal }) => differencesTotal > 0,
    notes,
    examples: ['berth operator providers compare main invoice.csv'],
    done: comparisonText,
  }),
  act('operator providers import', 'importProviderBill', "import a cloud's invoice, and compare it", {
    args: fileArgs,
    only: ['from', 'to', 'label'],
    flags: { ...periodFlags, label: 'your own name for it (default: the file name)' },
    prepare: async (call) => {
      const label = (call.options as { label?: string }).label ?? String(call.args[1]).replace(/^.*[/\\]/, '')
      return withBody(call.input, { lines: readLines(call), label })
    },
    isWrong: ({ differencesTotal }) => differencesTotal > 0,
    notes: `${notes}\nThe same amounts for the same days are imported once.`,
    examples: ['berth operator providers import main bill.csv --from 2026-11-01'],
    done: (reply) => [
      reply.isNew
        ? `Imported ${reply.bill.label} as ${reply.bill.id}.`
        : `Imported before, as ${reply.bill.id}: nothing was changed.`,
      ...comparisonText(reply),
    ],
  }),
  list('operator providers bills ls', 'listProviderBills', 'list the imported bills of an account', {
    args: { '<name>': name },
    columns: [
      'id:ID',
      'label',
      { PERIOD: billPeriod },
      { MACHINES: ({ lines }) => String(lines), BILLED: ({ billedUsd }) => money(billedUsd) },
      'importedAt:IMPORTED',
    ],
    examples: ['berth operator providers bills ls main'],
  }),
  show('operator providers bills show', 'getProviderBill', 'compare an imported bill with what is recorded by now', {
    args: billArgs,
    content: (reply) => [`${reply.bill.label}, imported ${reply.bill.importedAt}.`, ...comparisonText(reply)],
    examples: ['berth operator providers bills show main bil_4YtQ'],
  }),
  act('operator providers bills rm', 'deleteProviderBill', 'delete an imported bill', {
    args: billArgs,
    done: ({ id }) => `Deleted ${id}.`,
  }),
]

type Comparison = Reply<'compareProviderBill'>

function comparisonText({ billedUsd, recordedUsd, differences, differencesTotal }: Comparison) {
  const hiddenCount = differencesTotal - differences.length
  return [
    ...(differences.length === 0
      ? []
      : [
          tableOf(differences, [
            'machine',
            {
              FOR: (one) => describeGoods(one) ?? '-',
              BILLED: billedText,
              RECORDED: recordedText,
              DIFFERENCE: (one) => money(one.differenceUsd),
            },
          ]),
          ...(hiddenCount === 0 ? [] : [`${count(hiddenCount, 'smaller difference')} not shown.`]),
          '',
        ]),
    `Billed ${money(billedUsd)}, recorded ${money(recordedUsd)}: ${count(differencesTotal, 'difference')}.`,
  ]
}

/** `{ "lines": [{ "machine", "amountUsd" }] }`, or lines of `machine,amount` with or without a head. */
function readLines({ shell, args }: Call): unknown {
  const file = String(args[1])
  if (file.endsWith('.json'))
    return readJsonFile(shell, file, '{"lines": [{"machine": "i-1", "amountUsd": "12.50"}]}').lines
  const rows = readTextFile(shell, file)
    .split(/\r?\n/)
    .map((line) => line.split(',').map((cell) => cell.trim().replaceAll('"', '')))
    .filter(([machine = '']) => machine !== '')
  const isHead = (cells: readonly string[]): boolean => !/\d/.test(cells[1] ?? '')
  const lines = rows[0] !== undefined && isHead(rows[0]) ? rows.slice(1) : rows
  return lines.map(([machine, amountUsd = '']) => ({ machine, amountUsd }))
}
