/** Templates: the operator's starter set and the account's own. */
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { CallDialog, ConfirmCall } from '../../form/dialog.tsx'
import { actionColumn, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Code, Facts } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextArea, TextField } from '../../ui/field.tsx'
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

/** Without `template` it creates one, from scratch or from a rental. */
function EditDialog({ template, onClose }: { template?: Template; onClose: () => void }) {
  const common = {
    title: template === undefined ? 'Create template' : `Edit ${template.name}`,
    wide: true,
    action: template === undefined ? 'Create' : 'Save as new version',
    initial: {
      name: template?.name ?? '',
      visibility: template?.visibility === 'link' ? 'link' : 'private',
      fields: textOfTemplate(template),
    },
    check: ({ fields }: { fields: string }) => ({ fields: templateFault(fields) }),
    refreshes: ['listTemplates'] as const,
    onClose,
  }
  const body = (values: { name: string; visibility: string; fields: string }) => ({
    ...templateOfText(values.fields),
    name: values.name.trim(),
    ...(template?.owner === 'operator'
      ? {}
      : { visibility: values.visibility === 'link' ? ('link' as const) : ('private' as const) }),
  })
  const inputs = (form: {
    text: (name: 'name' | 'visibility' | 'fields') => {
      value: string
      error: string | undefined
      onChange: (event: { readonly target: { readonly value: string } }) => void
    }
  }) => (
    <>
      <TextField label="Name" maxLength={255} {...form.text('name')} />
      {template?.owner !== 'operator' && (
        <SelectField
          label="Visibility"
          choices={[
            { value: 'private', label: 'Private: this account' },
            { value: 'link', label: 'Anyone who knows its ID' },
          ]}
          {...form.text('visibility')}
        />
      )}
      <TextArea
        label="Fields (JSON)"
        rows={14}
        spellCheck={false}
        className="font-mono"
        hint="image, command, args, env, files, onStart, ports, diskGb, shmGb, minVramGb, params, readme"
        {...form.text('fields')}
      />
    </>
  )
  return template === undefined ? (
    <CallDialog {...common} operation="createTemplate" body={body} done={(made) => `Created ${made.name}`}>
      {inputs}
    </CallDialog>
  ) : (
    <CallDialog
      {...common}
      operation="changeTemplate"
      input={{ params: { id: template.id } }}
      body={body}
      done={(made) => `${made.name} is at version ${made.version}`}
    >
      {inputs}
    </CallDialog>
  )
}

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
