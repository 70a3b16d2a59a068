/** The account's stop. */
export const stop = {
  menu: 'Stop everything',
  title: 'Stop everything',
  lead: 'For the moment when something is wrong and you need time to look.',
  what: 'What happens',
  effects: {
    suspended: (count: number) =>
      count === 1
        ? 'The one mandate that is active is suspended.'
        : `All ${count} mandates that are active are suspended.`,
    denied: 'Every request of every agent is denied from now on, on every path: MD-203.',
    approvals: 'What you have approved and what was not done yet is denied as well.',
    running: 'What was already allowed goes on to its end, and is booked.',
    back: 'You can resume all of them with one step. Mandates that were suspended before stay as they are.',
  },
  none: 'No mandate is active: there is nothing to stop.',
  submit: 'Stop everything now',
  listActive: 'These are suspended',
  stopped: 'Your account is stopped',
  stoppedText: (count: number) =>
    count === 1
      ? 'One mandate is suspended by the stop. Nothing is allowed under it.'
      : `${count} mandates are suspended by the stop. Nothing is allowed under them.`,
  resumeTitle: 'Resume',
  resumeText:
    'The mandates that the stop suspended are active again, with the limits they had. What was used this month still ' +
    'counts. Mandates that you suspended one by one stay suspended.',
  resumeSubmit: 'Resume',
  listStopped: 'These are resumed',
  nothingStopped: 'No mandate is suspended by a stop: there is nothing to resume.',
  look: 'Look at it',
  flash: {
    stopped: 'Everything is stopped. No agent may do anything.',
    resumed: 'The mandates are active again.',
    nothing: 'Nothing was changed: somebody was there before you.',
  },
};
