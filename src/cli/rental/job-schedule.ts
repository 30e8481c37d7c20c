/** `berth schedules`: jobs that run again and again. */
import { randomUUID } from 'node:crypto'
import type { Reply } from '../../client/client.ts'
import { localTime } from '../../view/time.ts'
import { act, custom, list } from '../kit/row.ts'
import { toned } from '../kit/screen.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'
import { jobBody, jobOptions, type RunOptions } from './job-run.ts'

type Schedule = Reply<'listJobSchedules'>['schedules'][number]

const EXAMPLE = "berth schedules create --cron '0 3 * * *' --name n --image IMAGE -- ./run"

const schedule = targetOf<Schedule>('schedule', 'berth schedules ls', {
  read: async (client) => (await client.call('listJobSchedules')).schedules,
  id: 'id',
  name: 'name',
})

interface ScheduleOptions extends RunOptions {
  readonly cron: string
}

export const rows: readonly Row[] = [
  list('schedules ls', 'listJobSchedules', 'list schedules of jobs', {
    noun: 'schedule',
    columns: [
      'id',
      'name',
      'cron',
      {
        NEXT: ({ nextAt }) => (nextAt === null ? toned('warn', 'paused') : localTime(nextAt)),
        'LAST JOB': ({ lastAt, lastJobId, lastReason }) => (lastAt === null ? '' : (lastReason ?? lastJobId ?? '')),
      },
    ],
    wide: ['image', 'tasks', 'lastAt'],
    empty: `To add one: ${EXAMPLE}`,
  }),
  custom<ScheduleOptions>('schedules create', 'run a job again and again', {
    who: 'customer',
    args: { '[command...]': "command to run (default: the image's own)" },
    options: {
      '--cron <times>': { help: 'five fields of cron in UTC, or @hourly, @daily, …', required: true },
      ...jobOptions,
    },
    run: async (call) => {
      const { client, session, options } = call
      const order = await jobBody(call, (call.args[0] ?? []) as string[])
      const body = { ...order, cron: options.cron }
      const created = await client.call('createJobSchedule', { body, idempotencyKey: randomUUID() })
      const next = created.nextAt === null ? 'never' : localTime(created.nextAt)
      session.screen.show(created, () => [`Created ${created.name ?? created.id}. Its next job: ${next}.`])
    },
    notes: 'A time is left out while the job before has not ended.',
    examples: [EXAMPLE],
  }),
  act('schedules set', 'changeJobSchedule', 'change the times of a schedule, pause it or resume it', {
    target: schedule,
    flags: {
      cron: '--cron <times>  five fields of cron in UTC',
      paused: { text: '--pause  order no more jobs', off: '--resume  order jobs again, with your key' },
    },
    examples: ["berth schedules set nightly --cron '30 4 * * *'", 'berth schedules set nightly --pause'],
    done: ({ name, id, nextAt }) =>
      nextAt === null ? `${name ?? id} is paused.` : `The next job of ${name ?? id}: ${localTime(nextAt)}.`,
  }),
  act('schedules rm', 'deleteJobSchedule', 'delete a schedule; its jobs go on', {
    target: schedule,
    examples: ['berth schedules rm nightly'],
    onWire: (_, { target: { id, name } }) => ({ id, name, deleted: true }),
    done: (_, { target: { id, name } }) => `Deleted ${name ?? id}.`,
  }),
]
