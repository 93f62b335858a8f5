import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** Per line: a pattern and names, base64, separated by blanks. Answers "refused" (or broken by it), or 1 and 0 per name. */
final class JavaMatches {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        StringBuilder answer = new StringBuilder();
        try {
            Pattern pattern = Pattern.compile(text(words[0]));
            for (int i = 1; i < words.length; i++) {
                answer.append(pattern.matcher(text(words[i])).matches() ? '1' : '0');
            }
        } catch (PatternSyntaxException | NullPointerException refused) {
            return "refused";
        }
        return answer.toString();
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }
}
