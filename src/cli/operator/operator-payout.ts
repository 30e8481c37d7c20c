/** `berth operator payouts`: runs that pay suppliers. */
import type { Reply } from '../../client/client.ts'
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { payoutBlockTexts, payoutDetail, payoutLabel, payoutRunLabels } from '../../view/payout.ts'
import { utcTime } from '../../view/time.ts'
import { checkOutput, outputOptions, writeOutput, type OutputOptions } from '../kit/output-file.ts'
import { factsOf, tableOf, type Columns } from '../kit/record.ts'
import { act, custom, show } from '../kit/row.ts'
import { toned, type Content } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

type Run = Reply<'getPayoutRun'>
type Listed = Reply<'listPayoutRuns'>

const RUN = { '<id>': 'id of the run, as berth operator payouts ls shows it' }
const HOW_TO_DRAFT = 'To draft one: berth operator payouts run'

export const rows: readonly Row[] = [
  custom('operator payouts ls', 'list payout runs, and suppliers with unpaid earnings', {
    operation: 'listPayoutRuns',
    examples: ['berth operator payouts ls'],
    run: async ({ client, screen }) => {
      const listed = await client.call('listPayoutRuns')
      screen.show(listed, () => describeList(listed))
    },
  }),
  show('operator payouts show', 'getPayoutRun', 'show a payout run with its payouts', {
    args: RUN,
    examples: ['berth operator payouts show prun_ID'],
    content: describeRun,
  }),
  act('operator payouts run', 'draftPayoutRun', 'draft a payout run; it moves nothing until it is approved', {
    examples: ['berth operator payouts run'],
    done: (run) => [...describeRun(run), '', `To pay it: berth operator payouts approve ${run.id}`],
  }),
  act('operator payouts approve', 'approvePayoutRun', 'approve a payout run: takes the earnings; asks first', {
    args: RUN,
    confirm: ({ args }) => `Pay the run ${String(args[0])}?`,
    examples: ['berth operator payouts approve prun_ID'],
    done: (run) => [
      ...describeRun(run),
      ...(run.payouts.some(({ kind, state }) => kind === 'bank' && state === 'approved')
        ? ['', `For your bank: berth operator payouts export ${run.id} -o payouts.csv`]
        : []),
    ],
  }),
  act('operator payouts cancel', 'cancelPayoutRun', 'cancel a drafted payout run', {
    args: RUN,
    examples: ['berth operator payouts cancel prun_ID'],
    done: ({ id }) => `Canceled ${id}. Its earnings are in the next run.`,
  }),
  act<'exportPayoutRun', OutputOptions>(
    'operator payouts export',
    'exportPayoutRun',
    'save the bank file of an approved run, once',
    {
      args: RUN,
      flags: {
        format: '--format <format>  csv, or pain.001: XML that banks read',
        eurRate: '--eur-rate <rate>  pay in EUR at this rate, such as 0.92',
      },
      options: outputOptions('bank'),
      notes: `A second file would pay everybody twice, so there is none. If the connection
breaks, repeat the command with the key that the error names.`,
      examples: [
        'berth operator payouts export prun_ID -o payouts.csv',
        'berth operator payouts export prun_ID --format pain.001 -o payouts.xml',
      ],
      prepare: ({ options, input }) => {
        checkOutput(options)
        return input
      },
      follow: (file, { options }) => {
        writeOutput(options, Buffer.from(file.text))
        return Promise.resolve(file)
      },
      onWire: ({ payoutsTotal, currency, total }, { options }) => ({
        file: options.output,
        payoutsTotal,
        currency,
        total,
      }),
      done: ({ payoutsTotal, currency, total }, { options, args }) => [
        `Saved ${count(payoutsTotal, 'payout')}, ${currency} ${total}, to ${options.output}.`,
        `When your bank has paid: berth operator payouts settle ${String(args[0])} --outcome paid --reason "…"`,
      ],
    },
  ),
  act('operator payouts settle', 'settlePayoutRun', 'say what became of the bank transfers of a run', {
    args: RUN,
    flags: {
      outcome: '--outcome <outcome>  paid, or failed: the money is in the earnings again',
      payoutIds: '--payout <id...>  only these payouts (default: all that are sent)',
      reason: '--reason <text>  reason, recorded in the audit log',
    },
    examples: [
      'berth operator payouts settle prun_ID --outcome paid --reason "statement"',
      'berth operator payouts settle prun_ID --payout po_ID --outcome failed',
    ],
    done: describeRun,
  }),
]

const runColumns: Columns<Listed['runs'][number]> = [
  'id',
  {
    STATE: ({ state }) => {
      const [label, tone] = payoutRunLabels[state]
      return toned(tone, label.toLowerCase())
    },
    PAYOUTS: ({ payoutsTotal }) => String(payoutsTotal),
    AMOUNT: ({ amountUsd }) => money(amountUsd),
    FILE: ({ exportedAs }) => exportedAs,
  },
  'createdAt',
]

const supplierColumns: Columns<Listed['suppliers'][number]> = [
  'accountId:SUPPLIER',
  {
    NAME: ({ accountName }) => accountName,
    UNPAID: ({ unpaidUsd }) => money(unpaidUsd),
    PAYABLE: ({ payableUsd }) => money(payableUsd),
    TO: ({ to }) => to,
    WAITS: ({ blockedBy }) => blockedBy && toned('warn', payoutBlockTexts[blockedBy]),
  },
]

const payoutColumns: Columns<Run['payouts'][number]> = [
  'id',
  {
    SUPPLIER: ({ accountName }) => accountName,
    STATE: (payout) => {
      const [label, tone] = payoutLabel(payout)
      return toned(tone, label.toLowerCase())
    },
    AMOUNT: ({ amountUsd }) => money(amountUsd),
    TO: ({ to }) => to,
    DETAIL: (payout) => payoutDetail(payout),
  },
]

function describeList({ alerts, runs, suppliers, nextRunAt }: Listed): Content[] {
  return [
    ...alerts.map(({ at, subject, detail }) => toned('warn', `${utcTime(at)}  ${subject}: ${detail}`)),
    ...(runs.length === 0 ? ['There are no payout runs yet.', HOW_TO_DRAFT] : [tableOf(runs, runColumns)]),
    '',
    ...(suppliers.length === 0 ? ['No supplier has unpaid earnings.'] : [tableOf(suppliers, supplierColumns)]),
    '',
    nextRunAt === null ? HOW_TO_DRAFT : `The next run is drafted on ${utcTime(nextRunAt)}.`,
  ]
}

function describeRun(run: Run): Content[] {
  return [
    ...factsOf(run, [
      {
        Run: ({ id }) => id,
        State: ({ state }) => payoutRunLabels[state][0].toLowerCase(),
        Amount: ({ amountUsd }) => money(amountUsd),
        'Earned before': ({ until }) => utcTime(until),
        File: ({ exportedAs }) => exportedAs,
      },
    ]),
    '',
    tableOf(run.payouts, payoutColumns),
  ]
}
