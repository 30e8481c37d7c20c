/** `berth templates`, and `berth export`: a rental as an order, a request or a template. */
import type { Reply } from '../../client/client.ts'
import { orderAsCommand, orderAsCurl, portText } from '../../view/ordered.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { anyMachine } from './own-machine.ts'
import { imageNamed, workloadFields, workloadOptions, type WorkloadFlags } from './rent-option.ts'
import { readJsonFile } from '../kit/json-file.ts'
import { act, list, show, withBody } from '../kit/row.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Input, Options, Row } from '../kit/row-type.ts'

type Template = Reply<'getTemplate'>

const template = targetOf('template', 'berth templates ls', {
  read: async (client, idOrName) => {
    const { templates } = await client.call('listTemplates')
    // A template that another account shares is found by its id alone.
    const isListed = templates.some(({ id, name }) => id === idOrName || name === idOrName)
    return isListed || !idOrName.startsWith('tpl_')
      ? templates
      : [await client.call('getTemplate', { params: { id: idOrName } })]
  },
  id: 'id',
  name: 'name',
})

/** The options of an order that a template has too. */
interface TemplateFlags extends Pick<
  WorkloadFlags,
  'env' | 'envFile' | 'secretEnv' | 'command' | 'args' | 'onStart' | 'userData' | 'disk' | 'shm' | 'port' | 'restart'
> {
  /** The file with the fields of a template, not one that is copied to the machine. */
  readonly file?: string
  readonly image?: string
}

const flagNames = [
  '--env <name=value...>',
  '--env-file <file>',
  '--secret-env <name...>',
  '--command <words>',
  '--args <words>',
  '--on-start <file>',
  '--user-data <file>',
  '--disk <gb>',
  '--shm <gb>',
  '--port <port...>',
  '--restart <policy>',
] as const

const fieldOptions: Options = {
  '--image <image>': 'image to run, such as debian:12',
  ...Object.fromEntries(flagNames.map((flag) => [flag, workloadOptions[flag] ?? ''])),
  '--file <json>': 'JSON file with its fields, or - for standard input; see berth export --template',
}

type Fields = Readonly<Record<string, unknown>> & { readonly env?: Readonly<Record<string, string>> | undefined }

/** The fields of the file, and on top of them those of the flags. Variables are added to those that there are. */
function fieldsOf({ shell, options }: Pick<Call<TemplateFlags>, 'shell' | 'options'>, before: Fields): Fields {
  const { file: path, image, ...flags } = options
  const file: Fields = path === undefined ? {} : readJsonFile(shell, path)
  const workload: Fields = workloadFields(shell, flags)
  const env = workload.env === undefined ? undefined : { ...(file.env ?? before.env), ...workload.env }
  return {
    ...file,
    ...workload,
    ...(env === undefined ? {} : { env }),
    ...(image === undefined ? {} : { image: imageNamed(image) }),
  }
}

async function completeNew(call: Call<TemplateFlags & { from?: string; forEveryone?: true }>): Promise<Input> {
  const { client, input, screen, options } = call
  const { from } = options
  const machine = from === undefined ? undefined : await anyMachine.find(client, from)
  const like: Fields =
    machine === undefined ? {} : (await client.call('getRentalOrder', { params: { id: machine.id } })).template
  if (options.forEveryone !== true) {
    const { account, key } = await client.call('getMe')
    // An operator may mean everyone, and would look for the template in vain as a customer.
    if (key.scopes.includes('operator'))
      screen.remark(`Only the account ${account.name} (${account.id}) will see it. For all accounts: --for-everyone`)
  }
  return withBody(input, { ...like, ...fieldsOf(call, like) })
}

function completeChange(call: Call<TemplateFlags & { remove?: string[] }, Template>): Input {
  const { input, options, target } = call
  const removed = Object.fromEntries((options.remove ?? []).map((name) => [name, null]))
  return withBody(input, { ...fieldsOf(call, target), ...removed })
}

export const rows: readonly Row[] = [
  list('templates ls', 'listTemplates', "list your templates and the operator's", {
    columns: [
      'id',
      'name',
      { IMAGE: imageOf, PORTS: ({ ports = [] }) => ports.map(portText).join(' ') },
      'owner',
      'version',
      'summary',
    ],
    hint: 'To use one: berth rent --template ID',
  }),
  show('templates show', 'getTemplate', 'show a template', { target: template }),
  act<'createTemplate', TemplateFlags & { from?: string; forEveryone?: true }>(
    'templates create',
    'createTemplate',
    'create a template',
    {
      whoOf: ({ forEveryone }: { forEveryone?: true }) => (forEveryone === true ? 'operator' : 'customer'),
      args: { '<name>': 'name of the template' },
      only: ['visibility', 'forEveryone', 'summary'],
      flags: {
        visibility: 'link: anyone who knows its id can use it',
        forEveryone: "make it one of the operator's templates",
        summary: 'one sentence about it',
      },
      options: { '--from <name>': 'with the settings of this machine of yours, also an ended one', ...fieldOptions },
      prepare: completeNew,
      examples: [
        'berth templates create Lab --image debian:12 --port 8888/http',
        'berth templates create Web --from web',
        'berth templates create Notebook --file notebook.json',
      ],
      done: (reply) => [`Created ${reply.id}.`, `To use it: berth rent --template ${reply.id}`],
    },
  ),
  act<'changeTemplate', TemplateFlags & { remove?: string[] }, Template>(
    'templates set',
    'changeTemplate',
    'change a template; its fields become a new version',
    {
      target: template,
      only: ['visibility', 'summary'],
      flags: {
        visibility: 'private, or link: anyone who knows its id can use it',
        summary: 'one sentence about it',
      },
      options: { ...fieldOptions, '--remove <field...>': 'fields to remove, named as in the API, such as onStart' },
      prepare: completeChange,
      examples: [
        'berth templates set Lab --image debian:13',
        'berth templates set Lab --env LEVEL=debug --remove onStart diskGb',
      ],
      done: ({ id, version }) => `${id} is at version ${version}. Rentals keep what they were ordered with.`,
    },
  ),
  act<'deleteTemplate', unknown, Template>('templates rm', 'deleteTemplate', 'delete a template; asks first', {
    target: template,
    confirm: ({ target }) => `Delete the template ${target.name}?`,
    done: (_, { target }) => `Deleted ${target.name}. Rentals made with it continue.`,
  }),
  show<'getRentalOrder', { template?: true; curl?: true; command?: true }, OwnMachine>(
    'export',
    'getRentalOrder',
    'print the order that makes a machine like this one, as JSON',
    {
      target: anyMachine,
      options: {
        '--command': { help: 'print a berth rent command instead', conflicts: ['curl', 'template'] },
        '--curl': { help: 'print a request for the API instead', conflicts: ['template'] },
        '--template': 'print the fields of a template instead',
      },
      notes: 'To rent it again right away: berth rent --like NAME',
      examples: ['berth export web', 'berth export web --command', 'berth export web --template > web.json'],
      onWire: async (reply, { options }) => (options.template === true ? reply.template : reply),
      content: (reply, { client, options, target }) => {
        if (options.command === true) return orderAsCommand(target.name, reply.order).split('\n')
        if (options.curl === true) return orderAsCurl(client.url, reply.order).split('\n')
        return JSON.stringify(options.template === true ? reply.template : reply.order, null, 2).split('\n')
      },
    },
  ),
]

function imageOf({ image }: Template): string {
  if (image === undefined) return "host's default"
  return image.tag === undefined ? image.name : `${image.name}:${image.tag}`
}
