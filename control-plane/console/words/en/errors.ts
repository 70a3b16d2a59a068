/** What went wrong, for a person. */
export const errors = {
  heading: 'This did not work',
  reference: (id: string) => `If it goes on, tell whoever runs this service the number ${id}.`,
  home: 'To the overview',
  reload: 'Try again',
  notFound: 'Nothing is here',
  notFoundText: 'This page does not exist, or what it was about is not yours.',
  forbidden: 'This form was refused',
  forbiddenText:
    'It was not sent from a page of this console, or that page was too old. Go back, load the page again, and retry.',
  malformed: 'The form could not be read.',
  tooMany: 'Too many requests',
  tooManyText: (seconds: number) => `Wait ${seconds} seconds, then try again.`,
  locked: (seconds: number) => `Too many attempts failed. Wait ${seconds} seconds before the next one.`,
  away: 'The service cannot reach its database for the moment. Nothing was changed; try again soon.',
  tooLarge: 'What was sent is too large.',
  internal: 'Something went wrong on our side. It was logged.',
};
