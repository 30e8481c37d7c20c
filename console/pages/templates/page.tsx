/** Templates: the account's own, and the starter set of the operator. */
import { useState, type ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { count, number } from '../../../src/view/number.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Code, Facts } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextField } from '../../ui/field.tsx'
import { Icon } from '../../ui/icon.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { templateIcons } from '../rent/template.tsx'
import { EditDialog } from './edit.tsx'
import { imageText, portsText } from './text.ts'

type Template = Reply<'listTemplates'>['templates'][number]

const tabs = { operator: 'From the operator', own: 'Mine' } as const
type Tab = keyof typeof tabs

export function TemplatesPage() {
  const mayWrite = useMay('compute:write')
  const list = useCall('listTemplates')
  const [query, setQuery] = useState('')
  const [chosen, setTab] = useState<Tab>()
  const dialog = useDialog()
  const create = (
    <Button
      look="primary"
      disabledReason={mayWrite ? undefined : missingScope('compute:write')}
      onClick={() => dialog.open((close) => <EditDialog onClose={close} />)}
    >
      Create template
    </Button>
  )
  return (
    <Page intro="A template pre-fills the rent form: image, command, variables, ports and disk." actions={create}>
      <Answer of={list} skeleton={<Skeleton rows={8} />}>
        {({ templates }) => {
          const tab = chosen ?? (templates.some(({ owner }) => owner === 'account') ? 'own' : 'operator')
          const ofTab = templates.filter(({ owner }) => (owner === 'operator') === (tab === 'operator'))
          const matching = ofTab.filter((one) => isMatch(one, query))
          return (
            <Tabs label="Templates" tabs={tabs} chosen={tab} onChoose={setTab}>
              <div className="flex flex-col gap-4">
                {ofTab.length > 0 && (
                  <TextField
                    type="search"
                    label="Search templates"
                    hideLabel
                    placeholder="Search templates"
                    className="sm:max-w-72"
                    value={query}
                    onChange={(event) => setQuery(event.target.value)}
                  />
                )}
                {ofTab.length === 0 && <NoTemplates tab={tab}>{create}</NoTemplates>}
                {ofTab.length > 0 && matching.length === 0 && <Empty title="No templates match" />}
                <ul aria-label="Templates" className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
                  {matching.map((template) => (
                    <li key={template.id} className="flex">
                      <TemplateCard template={template} open={dialog.open} />
                    </li>
                  ))}
                </ul>
              </div>
            </Tabs>
          )
        }}
      </Answer>
      {dialog.shown}
    </Page>
  )
}

function NoTemplates({ tab, children }: { tab: Tab; children: ReactNode }) {
  return tab === 'operator' ? (
    <Empty title="The operator has no templates" />
  ) : (
    <Empty title="No templates yet" action={children}>
      Create one here, or save a rental as a template with Export on its page.
    </Empty>
  )
}

interface TemplateCardProps {
  readonly template: Template
  readonly open: ReturnType<typeof useDialog>['open']
}

/** Buttons that the key cannot use are not there. */
function TemplateCard({ template, open }: TemplateCardProps) {
  const mayWrite = useMay('compute:write')
  const isOperator = useMay('operator')
  const { id, name, summary, icon, usedBy, visibility, owner, minVramGb } = template
  const mayEdit = mayWrite && (owner === 'account' || (owner === 'operator' && isOperator))
  const ports = portsText(template)
  return (
    <article
      aria-label={name}
      className="flex w-full min-w-0 flex-col gap-3 rounded-lg border border-line bg-surface p-4"
    >
      <div className="flex items-start gap-3">
        <span className="flex size-10 shrink-0 items-center justify-center rounded-md bg-accent-soft text-accent">
          <Icon name={templateIcons[icon ?? 'box']} />
        </span>
        <div className="min-w-0 flex-1">
          <h2 className="font-semibold break-words">{name}</h2>
          <p className="line-clamp-2 min-h-10 text-sm text-muted">{summary}</p>
        </div>
      </div>
      <p className="truncate font-mono text-xs text-muted" title={imageText(template)}>
        {imageText(template)}
      </p>
      <div className="flex min-h-6 flex-wrap items-center gap-1.5">
        {ports !== '' && <Badge>{`ports ${ports}`}</Badge>}
        {minVramGb !== undefined && minVramGb > 0 && <Badge>{`${number(minVramGb)} GB GPU`}</Badge>}
        {visibility === 'link' && <Badge tone="info">shared by link</Badge>}
        {usedBy > 0 && <Badge tone="good">{`used by ${count(usedBy, 'rental')}`}</Badge>}
      </div>
      <div className="mt-auto flex flex-wrap gap-2">
        <ButtonLink look="primary" to="/marketplace" search={{ template: id }} aria-label={`Use ${name}`}>
          Use
        </ButtonLink>
        <Button
          aria-label={`Details ${name}`}
          onClick={() => open((close) => <ShowDialog template={template} onClose={close} />)}
        >
          Details
        </Button>
        {mayEdit && (
          <>
            <Button
              aria-label={`Edit ${name}`}
              onClick={() => open((close) => <EditDialog template={template} onClose={close} />)}
            >
              Edit
            </Button>
            <Button
              look="quiet"
              aria-label={`Delete ${name}`}
              onClick={() => open((close) => <DeleteDialog template={template} onClose={close} />)}
            >
              <Icon name="trash" />
            </Button>
          </>
        )}
      </div>
    </article>
  )
}

function isMatch(template: Template, query: string): boolean {
  const text = `${template.name} ${template.summary ?? ''} ${imageText(template)}`.toLowerCase()
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
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
