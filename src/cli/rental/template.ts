/** `berth templates`, and `berth export`: a rental as an order, a request or a template. */
import type { Reply } from '../../client/client.ts'
import { orderAsCommand, orderAsCurl, portText } from '../../view/ordered.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { anyMachine } from './own-machine.ts'
import { readJsonFile } from '../kit/json-file.ts'
import { act, list, show, withBody } from '../kit/row.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Input, Row } from '../kit/row-type.ts'

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

const FILE = {
  '--file <json>': {
    help: 'file with the fields of the template, or - for standard input; see berth export --template',
  },
}

function withFile({ shell, input, options }: Call<{ file?: string }>): Input {
  return options.file === undefined ? input : withBody(input, readJsonFile(shell, options.file))
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
  act<'createTemplate', { file?: string }>('templates create', 'createTemplate', 'create a template from a JSON file', {
    whoOf: ({ forEveryone }: { forEveryone?: true }) => (forEveryone === true ? 'operator' : 'customer'),
    args: { '<name>': 'name of the template' },
    only: ['visibility', 'forEveryone', 'summary'],
    flags: {
      visibility: 'link: anyone who knows its id can use it',
      forEveryone: "make it one of the operator's templates",
      summary: 'one sentence about it',
    },
    options: FILE,
    prepare: withFile,
    examples: ['berth templates create Notebook --file notebook.json'],
    done: (reply) => [`Created ${reply.id}.`, `To use it: berth rent --template ${reply.id}`],
  }),
  act<'changeTemplate', { file?: string }, Template>(
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
      options: FILE,
      prepare: withFile,
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
