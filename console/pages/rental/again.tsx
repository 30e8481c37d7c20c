/** Renting again with the settings of a rental, and exporting the settings as a command, a request or a template. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { regions } from '../../../src/contract/choices.ts'
import { orderAsCommand, orderAsCurl } from '../../../src/view/ordered.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { FormProblems } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, SubmitButton, type OpenDialog } from '../../ui/dialog.tsx'
import { TextField } from '../../ui/field.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { toast } from '../../ui/toast.tsx'

/** Opens the rent form. A container is rented on a marketplace machine. */
export function RentAgain({ rental }: { rental: Reply<'getRental'> }) {
  const mayRent = useMay('compute:write')
  if (!mayRent) return <Button disabledReason={missingScope('compute:write')}>Rent again</Button>
  const { kind, gpuType, networkType: network, gpuCount: count } = rental
  const like = String(rental.id)
  if (kind === 'container') {
    return (
      <ButtonLink to="/marketplace" search={{ like }}>
        Rent again
      </ButtonLink>
    )
  }
  const region = regions.find((one) => one === rental.region)
  return (
    <ButtonLink to="/rent" search={{ kind, region, gpu: gpuType ?? undefined, network, count, like }}>
      Rent again
    </ButtonLink>
  )
}

interface ExportProps {
  readonly id: string
  /** The rental's name in the command. */
  readonly name: string
}

export function ExportButton({ dialog, ...rental }: ExportProps & { readonly dialog: Pick<OpenDialog, 'open'> }) {
  return <Button onClick={() => dialog.open((close) => <ExportDialog {...rental} onClose={close} />)}>Export</Button>
}

const forms = { command: 'Command', request: 'API call', template: 'Template' } as const

function ExportDialog({ id, name, onClose }: ExportProps & { readonly onClose: () => void }) {
  const exported = useCall('getRentalOrder', { params: { id } })
  const [form, setForm] = useState<keyof typeof forms>('command')
  return (
    <Dialog title={`Export ${name}`} onClose={onClose} wide>
      <Tabs label="Format" tabs={forms} chosen={form} onChoose={setForm}>
        <Answer of={exported}>
          {({ order, template }) => (
            <div className="flex flex-col gap-3 text-sm">
              {form === 'command' && (
                <>
                  <p className="text-muted">Rents a machine like this one from a terminal.</p>
                  <CodeBlock label="Command" code={orderAsCommand(name, order)} />
                </>
              )}
              {form === 'request' && (
                <>
                  <p className="text-muted">
                    Rents a machine like this one with your API key in <code>BERTH_KEY</code>.
                  </p>
                  <CodeBlock label="Request" code={orderAsCurl(location.origin, order)} />
                </>
              )}
              {form === 'template' && <TemplateForm template={template} onClose={onClose} />}
            </div>
          )}
        </Answer>
      </Tabs>
    </Dialog>
  )
}

interface TemplateFormProps {
  readonly template: Reply<'getRentalOrder'>['template']
  readonly onClose: () => void
}

function TemplateForm({ template, onClose }: TemplateFormProps) {
  const mayWrite = useMay('compute:write')
  const form = useCallForm('createTemplate', {
    refreshes: ['listTemplates'],
    initial: { name: '' },
    body: ({ name }) => ({ ...template, name: name.trim() }),
    onDone: (created) => {
      toast(`Created the template ${created.name}`)
      onClose()
    },
  })
  return (
    <form onSubmit={form.submit} noValidate className="flex flex-col gap-3">
      <p className="text-muted">
        A template has the image, command, variables, ports and disk of this rental, for any machine. Secrets stay
        references.
      </p>
      <CodeBlock label="Template" code={JSON.stringify(template, null, 2)} />
      <div className="flex items-start gap-2">
        <TextField label="Name" placeholder="Trainer" className="flex-1" maxLength={255} {...form.text('name')} />
        <SubmitButton
          className="mt-6"
          busy={form.isPending}
          disabledReason={mayWrite ? undefined : missingScope('compute:write')}
        >
          Save as template
        </SubmitButton>
      </div>
      <FormProblems form={form} />
    </form>
  )
}
