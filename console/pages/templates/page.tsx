/** Templates: the operator's starter set and the account's own. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionColumn, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesIn } from '../../list/filter.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Code, Facts } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextArea } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { imageText, portsText, templateFault, templateOfText, textOfTemplate } from './text.ts'

type Template = Reply<'getTemplate'>

const WHY_NOT = 'Your key is read-only. Changing templates requires the scope compute:write.'

export function TemplatesPage() {
  const mayWrite = useMay('compute:write')
  const isOperator = useMay('operator')
  const whyNot = (template?: Template): string | undefined => {
    if (!mayWrite) return WHY_NOT
    return template?.owner === 'operator' && !isOperator ? 'Only the operator can change this template.' : undefined
  }
  const dialog = useDialog()
  const create = (
    <Button
      look="primary"
      disabledReason={whyNot()}
      onClick={() => dialog.open((close) => <EditDialog onClose={close} />)}
    >
      Create template
    </Button>
  )
  const show = (one: Template): void => dialog.open((close) => <ShowDialog template={one} onClose={close} />)
  const edit = (one: Template): void => dialog.open((close) => <EditDialog template={one} onClose={close} />)
  const remove = (one: Template): void => dialog.open((close) => <DeleteDialog template={one} onClose={close} />)
  return (
    <Page intro="Templates fill in an order: image, command, variables, ports and disk." actions={create}>
      <ListTable
        label="Templates"
        call="listTemplates"
        rows={({ templates }) => templates}
        rowKey="id"
        columns={[
          ...columns,
          rentColumn,
          actionColumn('Details', ({ name }) => name, show),
          actionColumn('Edit', ({ name }) => name, edit, { disabledReason: whyNot }),
          actionColumn('Delete', ({ name }) => name, remove, { disabledReason: whyNot }),
        ]}
        empty={<Empty title="No templates yet" action={create} />}
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<Template> = [
  textColumn('Name', ({ name, summary }) => (
    <div className="min-w-40">
      <div className="font-medium">{name}</div>
      <div className="text-muted">{summary}</div>
    </div>
  )),
  textColumn('Image', imageText, { className: 'font-mono text-xs break-all', wideOnly: true }),
  textColumn('Ports', portsText, { wideOnly: true }),
  badgeColumn('Owner', ({ owner, visibility }) =>
    owner === 'operator'
      ? { label: 'Operator' }
      : { label: visibility === 'link' ? 'Shared by link' : 'Yours', tone: 'good' },
  ),
]

const rentColumn: Columns<Template>[number] = {
  name: 'use',
  header: <span className="sr-only">Use</span>,
  cell: ({ id, name }) => (
    <ButtonLink to="/marketplace" search={{ template: id }} aria-label={`Use ${name}`}>
      Use
    </ButtonLink>
  ),
}

function ShowDialog({ template, onClose }: { template: Template; onClose: () => void }) {
  return (
    <Dialog title={template.name} wide onClose={onClose}>
      <div className="flex flex-col gap-4">
        {template.readme !== undefined && <p className="whitespace-pre-wrap">{template.readme}</p>}
        <Facts
          facts={[
            ['ID', <Code key="id" text={template.id} />],
            ['Version', String(template.version)],
            ['Image', imageText(template)],
            ['Ports', portsText(template)],
            ['Disk', template.diskGb === undefined ? undefined : `${template.diskGb} GB`],
            ['Secrets', template.secrets.length === 0 ? undefined : template.secrets.join(', ')],
            ['GPU memory', template.minVramGb === undefined ? undefined : `at least ${template.minVramGb} GB`],
          ]}
        />
        <CodeBlock label="Rent from a terminal" code={`berth rent --template ${template.id}`} />
      </div>
      <DialogButtons>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogButtons>
    </Dialog>
  )
}

/** Edits `template`; without one, creates a template, from scratch or from a rental. */
function EditDialog({ template, onClose }: { template?: Template; onClose: () => void }) {
  const [json, setJson] = useState(textOfTemplate(template))
  const operation = template === undefined ? 'createTemplate' : 'changeTemplate'
  const fault = templateFault(json)
  return (
    <FieldDialog<typeof operation>
      operation={operation}
      input={template && { params: { id: template.id } }}
      refreshes={['listTemplates']}
      title={template === undefined ? 'Create template' : `Edit ${template.name}`}
      action={template === undefined ? 'Create' : 'Save as new version'}
      wide
      initial={{ name: template?.name ?? '', visibility: template?.visibility === 'link' ? 'link' : 'private' }}
      fields={[
        'name',
        template?.owner !== 'operator' && ['visibility', { choices: visibilities, hint: null }],
        {
          show: (
            <TextArea
              label="Fields (JSON)"
              rows={14}
              spellCheck={false}
              className="font-mono"
              hint="image, command, args, env, files, onStart, ports, diskGb, shmGb, minVramGb, params, readme"
              value={json}
              onChange={(event) => setJson(event.target.value)}
            />
          ),
        },
      ]}
      disabledReason={fault}
      body={(body) => ({ ...templateOfText(json), ...body })}
      done={({ name, version }) => (template === undefined ? `Created ${name}` : `${name} is at version ${version}`)}
      onClose={onClose}
    />
  )
}

const visibilities = choicesIn({ private: 'Private: this account', link: 'Anyone who knows its ID' })

function DeleteDialog({ template, onClose }: { template: Template; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${template.name}?`}
      action="Delete"
      operation="deleteTemplate"
      input={{ params: { id: template.id } }}
      refreshes={['listTemplates']}
      done={`Deleted ${template.name}`}
      onClose={onClose}
    >
      Rentals made with it continue.
    </ConfirmCall>
  )
}
